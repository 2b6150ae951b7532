"""Unit tests of `web.process.access`, module by module."""
