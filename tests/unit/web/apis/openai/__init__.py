"""Unit tests of `web.apis.openai`, module by module."""
