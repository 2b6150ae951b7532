"""Unit tests of `actors.core`, module by module."""
