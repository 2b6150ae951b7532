"""Unit tests of `actors.testing`, module by module."""
