"""Unit tests of `web.apis.responses.input`, module by module."""
