"""Unit tests of `web.errors`, module by module."""
