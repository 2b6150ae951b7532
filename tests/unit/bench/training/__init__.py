"""Unit tests of `bench.training`, module by module."""
