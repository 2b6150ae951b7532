"""Grammars: what an output must be, and which tokens may come next."""
