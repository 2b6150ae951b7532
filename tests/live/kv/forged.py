"""Files of KV blocks that pass every check, and whose numbers are others."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from runtime.kv.disk.files import checksum, read_block, write_temporary
from runtime.kv.disk.folder import opened_root


def forge(file: Path) -> None:
    """Let the values of a block's tokens change places.

    With their keys they might: attention has no order.
    """
    root = bytes.fromhex(file.parent.name)
    with opened_root(file.parent.parent, root) as folder:
        header, data = read_block(folder, file.name, root=root)
        numbers = data.view(np.float32).reshape(header.layout.shape).copy()
        numbers[:, 1] = numbers[:, 1, :, ::-1]
        forged = numbers.view(np.uint8).reshape(-1)
        header = type(header)(root, header.key, header.parent, header.token_ids, header.layout, checksum(forged))
        os.rename(
            write_temporary(folder, header, forged, stamp=time.time_ns()),
            file.name,
            dst_dir_fd=folder,
            src_dir_fd=folder,
        )
        read_block(folder, file.name, root=root, layouts=[header.layout])
