"""Unit tests of `bench.client.attacks`, module by module."""
