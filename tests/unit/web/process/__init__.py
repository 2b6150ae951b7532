"""Unit tests of `web.process`, module by module."""
