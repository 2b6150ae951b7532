"""Unit tests of `web.testing`, module by module."""
