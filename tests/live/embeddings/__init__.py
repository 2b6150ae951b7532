"""Embeddings and the scores of prompts over real sockets."""
