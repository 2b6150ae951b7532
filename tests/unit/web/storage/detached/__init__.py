"""Unit tests of `web.storage.detached`, module by module."""
