"""Embeddings: texts as vectors.

- `schema`: the body
- `parse`: `parse_embeddings`, the body as what is to be computed
- `answers`: the response
"""
