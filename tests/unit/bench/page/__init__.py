"""Tests of `bench.page`."""
