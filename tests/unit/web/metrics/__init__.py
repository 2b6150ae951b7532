"""Tests of `web.metrics`."""
