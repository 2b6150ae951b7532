"""Tests of `runtime.parallel`."""
