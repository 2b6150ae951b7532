"""Unit tests of `runtime.devices`, module by module."""
