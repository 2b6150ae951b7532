"""Tests of `runtime.mps`."""
