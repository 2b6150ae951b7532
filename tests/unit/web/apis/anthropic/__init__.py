"""Unit tests of `web.apis.anthropic`, module by module."""
