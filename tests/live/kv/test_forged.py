"""KV on disk whose numbers were changed behind a checksum that fits, under a real server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runtime.kv.blocks import BLOCK_TOKENS, block_keys
from runtime.kv.disk.folder import roots
from tests.live.kv.forged import forge
from tests.live.kv.servers import (
    ONE_SLOT_ON_DISK,
    A,
    B,
    Starter,
    ask,
    cache_statistics,
    cached,
    disk_statistics,
    plain,
    reusable,
    root_of,
    tokens,
    wait_saved,
)
from tests.live.server import COMPLETIONS, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.live.server import Json

    Expected = Callable[[Json, str], list[int]]


def chain_files(folder: Path, ids: Sequence[int]) -> list[Path]:
    """The files of a prompt's blocks, in order."""
    (root,) = roots(folder)
    return [next(root_of(folder).glob(f"{key.hex()}-*.safetensors")) for key in block_keys(root, ids)]


def test_numbers_that_were_changed_behind_a_checksum_that_fits(
    tmp_path: Path, start: Starter, expected: Expected
) -> None:
    folder = tmp_path / "kv"
    server = start(*ONE_SLOT_ON_DISK, "--kv-dir", str(folder), "--kv-audit", "1")
    ask(server, plain(A))
    ask(server, plain(B))
    wait_saved(server)
    answer = ask(server, plain(A))
    assert cached(answer) == reusable(A) - BLOCK_TOKENS, "the last block is computed again"
    ask(server, plain(B))
    wait_saved(server)
    assert cache_statistics(server)["audit_failures"] == 0

    file = chain_files(folder, A)[1]
    forge(file)
    forged = file.read_bytes()
    answer = ask(server, plain(A))
    assert tokens(answer) == expected(plain(A), COMPLETIONS)
    assert cached(answer) == 0
    struck = reusable(A) // BLOCK_TOKENS
    wait_for(lambda: cache_statistics(server)["strikes"] == disk_statistics(server)["struck"] == struck, "the strikes")
    assert cache_statistics(server)["audit_failures"] == 1

    ask(server, plain(B))
    wait_saved(server)
    assert file.read_bytes() != forged, "the file went, and what was computed instead has its name"
    answer = ask(server, plain(A))
    assert tokens(answer) == expected(plain(A), COMPLETIONS)
    assert cached(answer) == reusable(A) - BLOCK_TOKENS
    assert cache_statistics(server)["audit_failures"] == 1
    assert len(re.findall(r" ERROR .*audit: a cached block differs", server.whole_log())) == 1
