"""Sequences that have their KV in pages of one pool, some of them the same ones."""
