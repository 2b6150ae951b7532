"""Unit tests of `web.apis.responses.output`, module by module."""
