"""Unit tests of `web.serving`, module by module."""
