"""Unit tests of `bench`, module by module."""
