"""Unit tests of `web.access`, module by module."""
