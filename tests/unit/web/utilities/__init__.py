"""Unit tests of `web.utilities`, module by module."""
