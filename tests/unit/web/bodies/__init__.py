"""Unit tests of `web.bodies`, module by module."""
