"""Unit tests of `runtime.text`, module by module."""
