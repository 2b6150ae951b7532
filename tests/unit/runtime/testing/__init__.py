"""Unit tests of `runtime.testing`, module by module.

- `plans`: plans of a few faults.
"""
