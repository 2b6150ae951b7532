"""Tests of `runtime.single_rows`."""
