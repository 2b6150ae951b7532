"""Filling in the middle, over real sockets, with a small random model whose tokenizer has the tokens for it."""
