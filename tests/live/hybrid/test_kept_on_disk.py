"""States of a hybrid on disk: a restart goes on from them, and one that fails is dropped at once (seed 4)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModelForCausalLM

from runtime.kv.blocks import state_key
from runtime.kv.disk.files import HEADER_BYTES, parse_name
from tests.live.families.subject import CONTEXT, Subject
from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion
from tests.live.kv.servers import CHUNK, FIXED, cache_statistics, in_blocks, reusable, root_of, verify, wait_saved
from tests.live.server import wait_for
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import random_tokens
from web.commands.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONG = 1000  # tokens of a prompt


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hybrid") / "model"
    FAMILIES["qwen3.5"](folder, max_position_embeddings=CONTEXT)
    return folder


@contextmanager
def serving(model: Path, folder: Path, *flags: str) -> Iterator[Subject]:
    flags = (*FIXED, "--slots", "1", "--kv-ram", "0", "--kv-dir", str(folder / "kv"), *flags)
    (folder / "logs").mkdir(exist_ok=True)
    with ForkedServer(folder / "logs", str(model), *flags) as server:
        yield Subject(server, AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32))


def state_files(folder: Path) -> list[Path]:
    names = {file: parse_name(file.name) for file in root_of(folder / "kv").iterdir()}
    return [file for file, keys in names.items() if keys is not None and keys[0] == state_key(keys[1])]


def test_a_restarted_server_goes_on_from_the_state_behind_the_last_block(model: Path, tmp_path: Path) -> None:
    ids = random_tokens(LONG, below=256, seed=1)
    with serving(model, tmp_path) as subject:
        said, _ = subject.complete(ids)
        wait_saved(subject.server)
    states = len(state_files(tmp_path))
    listed = CliRunner().invoke(main, ["kv", "ls", "--kv-dir", str(tmp_path / "kv")]).output
    assert f"in 1 chain; {states} states, " in listed
    verify(tmp_path / "kv")
    with serving(model, tmp_path) as subject:
        again, timings = subject.complete(ids)
        assert timings["cache_n"] == reusable(ids)
        assert again == said


def test_a_hang_up_and_a_restart_cost_a_chunk(model: Path, tmp_path: Path) -> None:
    ids = random_tokens(LONG, below=256, seed=2)
    with serving(model, tmp_path) as subject:
        client = Http1(subject.server, completion(ids, 1))
        (request_id,) = wait_for(subject.server.requests, "the request")
        subject.server.wait_committed(request_id, 4 * CHUNK)
        client.close()
        (receipt,) = subject.server.wait_ended(request_id)
        wait_saved(subject.server)
    with serving(model, tmp_path) as subject:
        _, timings = subject.complete(ids)
        assert timings["cache_n"] >= min(in_blocks(receipt["kept_tokens"]), reusable(ids)) - CHUNK


def test_states_that_are_damaged_are_misses_and_gone(model: Path, tmp_path: Path) -> None:
    """One after the other: behind the last there is none to go on from."""
    ids = random_tokens(LONG, below=256, seed=3)
    with serving(model, tmp_path) as subject:
        subject.complete(ids)
        wait_saved(subject.server)
    damaged = state_files(tmp_path)
    for file in damaged:
        contents = bytearray(file.read_bytes())
        contents[HEADER_BYTES + 99] ^= 4
        file.write_bytes(contents)
    with serving(model, tmp_path) as subject:
        _, timings = subject.complete(ids)
        assert timings["cache_n"] == 0
        assert cache_statistics(subject.server)["disk"]["rejected"] == {"checksum": len(damaged)}
        wait_saved(subject.server)
    verify(tmp_path / "kv")
    assert len(state_files(tmp_path)) == len(damaged), "what was computed anew is kept"
