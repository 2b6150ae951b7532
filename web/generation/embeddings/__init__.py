"""Texts as vectors, whatever the API: how they become prompts, how a batch of them runs, and what it gives.

- `batch`: `EmbeddingRequest`, a body that was understood, and `Embedder`, which computes its vectors
- `inputs`: texts and token ids as prompts
"""
