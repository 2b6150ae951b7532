"""Unit tests of `web.apis.kobold`, module by module."""
