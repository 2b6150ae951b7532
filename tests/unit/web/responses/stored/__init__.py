"""Unit tests of `web.responses.stored`, module by module."""
