"""Unit tests of `runtime.loading`, module by module."""
