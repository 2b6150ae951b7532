"""GGUF files for tests: of small checkpoints, with something changed, and byte by byte."""
