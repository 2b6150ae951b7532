"""Unit tests of `actors.kv`, module by module.

- `prefix_caches`: prefix caches to be tested, with a disk that is a dictionary.
"""
