"""Tests of `runtime.ranks`."""
