"""Unit tests of `bench.client.reports`, module by module."""
