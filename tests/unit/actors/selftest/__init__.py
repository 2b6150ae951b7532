"""Unit tests of `actors.selftest`, module by module."""
