"""Unit tests of `actors.diagnostics`, module by module."""
