"""Unit tests of `web.selftest`, module by module."""
