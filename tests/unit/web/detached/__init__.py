"""Unit tests of `web.detached`, module by module."""
