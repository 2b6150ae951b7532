"""Unit tests of `web.generation.embeddings`, module by module."""
