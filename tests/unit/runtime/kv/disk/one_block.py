"""A block, and the header of its file."""

from __future__ import annotations

import numpy as np

from runtime.kv.disk.files import BlockHeader, BlockLayout, block_name, checksum
from tests.fakes.kv_blocks import ROOT, SHAPE, make_block

LAYOUT = BlockLayout("F32", SHAPE)
BLOCK = make_block(1)
DATA = BLOCK.data.numpy().view(np.uint8).reshape(-1)
HEADER = BlockHeader(ROOT, BLOCK.key, BLOCK.parent, BLOCK.token_ids, LAYOUT, checksum(DATA))
NAME = block_name(BLOCK.key, BLOCK.parent)
