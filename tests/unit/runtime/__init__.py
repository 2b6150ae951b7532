"""Unit tests of `runtime`, module by module."""
