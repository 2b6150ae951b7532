"""Sequences that share the arena of KV."""
