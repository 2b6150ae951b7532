"""Unit tests of `web.apis.utilities`, module by module."""
