"""Tests of `web.observability.inspection`."""
