"""A process that writes blocks until it is killed.  Imports little, and is forked where that is done."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

import torch

from runtime.kv.blocks import BLOCK_TOKENS
from runtime.kv.disk.tier import open_disk_tier
from tests.fakes.kv_blocks import DTYPE, ROOT, make_block

SHAPE = (4, 2, 4, BLOCK_TOKENS, 32)  # 256 KiB: a kill finds it at work
BUDGET = 24 * (4096 + 4 * 2 * 4 * BLOCK_TOKENS * 32 * 4)

torch.set_num_threads(1)


def write_until_killed(folder: Path, start: int, reports: Connection) -> None:
    """Put new blocks without end, in chains of eight, and drop one in five; report each drop when it is done."""
    with open_disk_tier(folder, ROOT, shape=SHAPE, dtype=DTYPE, budget=BUDGET, queue_blocks=4) as tier:
        reports.send_bytes(b"")
        parent = ROOT
        while True:
            start += 1
            block = make_block(start, parent, SHAPE)
            parent = ROOT if start % 8 == 0 else block.key
            while not tier.put_nowait(block):
                tier.flush(1)
            if start % 5 == 0:
                tier.drop([block.key])
                while tier.flush(1):
                    pass
                reports.send_bytes(block.key)
