"""Unit tests of `actors`, module by module."""
