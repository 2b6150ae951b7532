"""Tests of `web.ranks`."""
