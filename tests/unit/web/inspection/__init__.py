"""Tests of `web.inspection`."""
