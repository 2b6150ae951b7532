"""Unit tests of `bench.client`, module by module.

- `records`: records of a benchmark, written by hand.
"""
