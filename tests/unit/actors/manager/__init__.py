"""Unit tests of `actors.manager`, module by module."""
