"""Unit tests of `web.apis`, module by module."""
