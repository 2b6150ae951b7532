"""Unit tests of `web.responses.output`, module by module."""
