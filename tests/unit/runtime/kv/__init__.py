"""Unit tests of `runtime.kv`, module by module."""
