"""Unit tests of `web.bodies.errors`, module by module."""
