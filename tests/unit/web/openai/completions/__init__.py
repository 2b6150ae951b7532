"""Unit tests of `web.openai.completions`, module by module."""
