"""Tests of `web.generation.control`."""
