"""Unit tests of `web.apis.responses.stored`, module by module."""
