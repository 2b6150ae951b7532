"""Unit tests of `web.apis.openai.chat`, module by module."""
