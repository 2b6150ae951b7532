"""Unit tests of `web.anthropic`, module by module."""
