"""Unit tests of `runtime.kv.disk`, module by module.

- `gates`: stops the disk tier's writer in the middle of its work.
- `one_block`: a block, and the header of its file.
"""
