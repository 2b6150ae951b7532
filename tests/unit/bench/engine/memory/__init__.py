"""Unit tests of `bench.engine.memory`, module by module."""
