"""Unit tests of `web.responses.input`, module by module."""
