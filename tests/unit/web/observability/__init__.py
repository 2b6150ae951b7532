"""Unit tests of `web.observability`, module by module."""
