"""Unit tests of `web.embeddings`, module by module."""
