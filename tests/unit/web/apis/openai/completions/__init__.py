"""Unit tests of `web.apis.openai.completions`, module by module."""
