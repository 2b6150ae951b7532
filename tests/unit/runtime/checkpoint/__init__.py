"""Unit tests of `runtime.checkpoint`, module by module."""
