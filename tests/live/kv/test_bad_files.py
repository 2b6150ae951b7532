"""KV files that cannot be used are a miss in a real server, and numbers that were changed are noticed."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from runtime.kv.blocks import BLOCK_TOKENS, block_keys
from runtime.kv.disk.files import (
    HEADER_BYTES,
    encode_header,
    read_block,
)
from runtime.kv.disk.folder import opened_root, roots
from tests.live.http_client import prompt
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
    hits_of,
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


def rewrite(file: Path, change: Callable[[bytearray], object]) -> None:
    contents = bytearray(file.read_bytes())
    change(contents)
    file.write_bytes(contents)


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1000)


def flip_a_bit(file: Path) -> None:
    def flip(contents: bytearray) -> None:
        contents[HEADER_BYTES + 12345] ^= 4

    rewrite(file, flip)


def link(file: Path) -> None:
    elsewhere = file.with_suffix(".elsewhere")
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


def make_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def take_another_models(file: Path) -> None:
    """Its key and numbers are right, but it says that it is of another root."""
    root = bytes.fromhex(file.parent.name)
    with opened_root(file.parent.parent, root) as folder:
        header, data = read_block(folder, file.name, root=root)
    other = type(header)(root[::-1], header.key, header.parent, header.token_ids, header.layout, header.checksum)
    file.write_bytes(encode_header(other) + data.tobytes())


def come_from_the_future(file: Path) -> None:
    def age(contents: bytearray) -> None:
        start = contents.index(b'"version":"1"')
        contents[start : start + 13] = b'"version":"9"'

    rewrite(file, age)


DAMAGES = [truncate, flip_a_bit, link, make_a_folder, take_another_models, come_from_the_future]


@pytest.mark.parametrize("when", ["while it runs", "before it starts"])
def test_a_file_that_cannot_be_used_is_a_miss(tmp_path: Path, start: Starter, expected: Expected, when: str) -> None:
    """Each damage to the second of three blocks of a prompt of its own."""
    folder = tmp_path / "kv"
    flags = (*ONE_SLOT_ON_DISK, "--kv-dir", str(folder))
    server = start(*flags)
    prompts = [prompt(3 * BLOCK_TOKENS + 8, seed=140 + i) for i in range(len(DAMAGES))]
    for ids in (*prompts, B):
        ask(server, plain(ids, 4))
    wait_saved(server)
    if when == "before it starts":
        server.signal(signal.SIGTERM)
        assert server.wait_exit() == 0
    damaged = [chain_files(folder, ids)[1] for ids in prompts]
    for damage, file in zip(DAMAGES, damaged, strict=True):
        damage(file)
    if when == "before it starts":
        server = start(*flags)
        ask(server, plain(B, 4))

    for damage, ids in zip(DAMAGES, prompts, strict=True):
        answer, hits = hits_of(server, plain(ids, 4))
        assert tokens(answer) == expected(plain(ids, 4), COMPLETIONS), damage
        assert hits == {"disk": BLOCK_TOKENS}, damage
    for damage, ids in zip(DAMAGES, prompts, strict=True):
        assert tokens(ask(server, plain(ids, 4))) == expected(plain(ids, 4), COMPLETIONS), damage
    assert disk_statistics(server)["rejected"].keys() == {"size", "checksum", "irregular", "root", "version"}
    said = Counter(re.findall(r"KV block (\w{16})… is not used", server.whole_log()))
    assert said == Counter(file.name[:16] for file in damaged), server.log()


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
