"""Unit tests of `web.openai.embeddings`, module by module."""
