"""Tests of `runtime.cuda`."""
