"""Unit tests of `web.openai.chat`, module by module."""
