"""Tests of `web.observability.metrics`."""
