"""Unit tests of `runtime.checkpoint.gguf`, module by module."""
