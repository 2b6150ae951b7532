"""Tests of programs that measure KV."""
