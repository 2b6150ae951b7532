"""Tests of `runtime.loading.ranks`."""
