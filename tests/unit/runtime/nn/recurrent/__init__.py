"""Unit tests of `runtime.nn`, module by module."""
