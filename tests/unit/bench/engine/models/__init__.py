"""Unit tests of `bench.engine`, module by module.

- `small_models`: small models for benchmarks that run in this process.
"""
