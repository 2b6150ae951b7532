"""Unit tests of `web.apis.openai.embeddings`, module by module."""
