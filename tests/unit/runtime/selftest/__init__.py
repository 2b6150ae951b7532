"""Unit tests of `runtime.selftest`, module by module."""
