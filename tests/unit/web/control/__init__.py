"""Tests of `web.control`."""
