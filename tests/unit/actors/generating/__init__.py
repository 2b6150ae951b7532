"""Unit tests of `actors.generating`, module by module."""
