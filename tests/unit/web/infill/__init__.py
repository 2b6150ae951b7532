"""Unit tests of `web.infill`, module by module."""
