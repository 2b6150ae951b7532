"""Unit tests of `runtime.common`, module by module."""
