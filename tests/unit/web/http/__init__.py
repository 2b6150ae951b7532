"""Unit tests of `web.http`, module by module."""
