"""KV in memory and on disk, of a real server: what lost its slot comes back, also after a restart."""

from __future__ import annotations

import signal
import stat
from typing import TYPE_CHECKING

from runtime.kv.blocks import BLOCK_TOKENS
from tests.live.kv.servers import (
    ONE_SLOT_ON_DISK,
    A,
    B,
    C,
    Starter,
    ask,
    cached,
    hits_of,
    in_blocks,
    plain,
    reusable,
    root_of,
    tokens,
    verify,
    wait_saved,
)
from tests.live.server import COMPLETIONS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.live.server import Json, Server

    Expected = Callable[[Json, str], list[int]]


BLOCK_BYTES = 320 * 2**10


def test_what_lost_its_slot_comes_from_memory(one_with_ram: Server, expected: Expected) -> None:
    ask(one_with_ram, plain(A))
    ask(one_with_ram, plain(B))
    wait_saved(one_with_ram)
    answer, hits = hits_of(one_with_ram, plain(A))
    assert cached(answer) == reusable(A)
    assert hits == {"ram": reusable(A)}
    assert tokens(answer) == expected(plain(A), COMPLETIONS)


def test_what_lost_its_slot_comes_from_disk_and_outlives_the_server(
    tmp_path: Path, start: Starter, expected: Expected
) -> None:
    folder = tmp_path / "kv"
    first = start(*ONE_SLOT_ON_DISK, "--kv-dir", str(folder))
    ask(first, plain(A))
    ask(first, plain(B))
    wait_saved(first)
    answer, hits = hits_of(first, plain(A))
    assert cached(answer) == reusable(A)
    assert hits == {"disk": reusable(A)}
    assert tokens(answer) == expected(plain(A), COMPLETIONS)

    assert tokens(ask(first, plain(C))) == expected(plain(C), COMPLETIONS)
    first.signal(signal.SIGTERM)  # with the last prompt's KV still in its slot, or on its way
    assert first.wait_exit() == 0
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(root_of(folder).stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in root_of(folder).iterdir()} == {0o600}

    second = start("--slots", "1", "--kv-ram", str(2 * BLOCK_BYTES), "--kv-dir", str(folder))
    for ids in (A, B, C):
        answer, hits = hits_of(second, plain(ids))
        assert cached(answer) == reusable(ids)
        assert hits == {"disk": reusable(ids)}
        assert tokens(answer) == expected(plain(ids), COMPLETIONS)

    ask(second, plain(A))
    wait_saved(second)
    ask(second, plain(A[:20]))  # which is no block, so the memory keeps what it has
    answer, hits = hits_of(second, plain([*A[:290], *B]))
    assert hits == {"resident": 20, "ram": 2 * BLOCK_TOKENS, "disk": in_blocks(290) - 2 * BLOCK_TOKENS}
    assert cached(answer) == in_blocks(290)
    assert tokens(answer) == expected(plain([*A[:290], *B]), COMPLETIONS)
    verify(folder)


def test_a_second_server_on_the_same_folder_is_refused(tmp_path: Path, start: Starter) -> None:
    flags = (*ONE_SLOT_ON_DISK, "--kv-dir", str(tmp_path / "kv"))
    first = start(*flags)
    first.wait_ready()
    second = start(*flags)
    assert second.wait_exit() == 1
    assert "Traceback" not in second.log()
    errors = [line for line in second.log().splitlines() if " INFO " not in line]
    assert errors == [f"Error: {tmp_path / 'kv'}: another cede (process {first.pid}) is using this KV folder"]
    assert tokens(ask(first, plain(A, 1)))
