"""Unit tests of `web.apis.infill`, module by module."""
