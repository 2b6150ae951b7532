"""A server of a small random model, held against transformers: what tests of hybrids ask."""
