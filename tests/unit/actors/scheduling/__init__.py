"""Unit tests of `actors.scheduling`, module by module."""
