"""`kill -9` at random moments: whatever a server left on disk, the next one serves the right tokens."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from runtime.kv.blocks import BLOCK_TOKENS
from tests.live.http_client import Http1, prompt
from tests.live.kv.servers import Starter, answer_of, ask, cached, disk_statistics, plain, tokens, verify
from tests.live.server import COMPLETIONS, Gone, wait_for
from tests.models.checkpoints import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.live.server import Json, Server

    Expected = Callable[[Json, str], list[int]]


def wait_written(server: Server, count: int) -> None:
    """Wait until so many blocks have been written since the start."""
    wait_for(lambda: disk_statistics(server)["written"] >= count, f"{count} blocks to be written")


POOL = [prompt(length, seed) for seed, length in enumerate((100, 150, 210, 270), 500)]
POOL += [[*POOL[2][:150], *prompt(60, seed=510)], [*POOL[3][:200], *prompt(60, seed=511)]]


def pester(server: Server, expected: dict[int, list[int]], seed: int) -> int:
    """Ask one thing after another, old and new, until the server is gone; the number of answers."""
    draw = random.Random(seed)
    answered = 0
    with suppress(Gone, ConnectionError):
        while True:
            index = draw.randrange(2 * len(POOL))
            ids = POOL[index] if index < len(POOL) else prompt(draw.randrange(70, 300), draw.randrange(2**32))
            with Http1(server, plain(ids, 6)) as client:
                answer = answer_of(client)
            answered += 1
            assert index not in expected or tokens(answer) == expected[index]
    return answered


def survive_kills(
    start: Callable[..., Server], folder: Path, expected: dict[int, list[int]], *, rounds: int, seed: int
) -> Counter[str]:
    """Kill the server that uses `folder` again and again, at random moments; what was seen."""
    draw = random.Random(seed)
    seen: Counter[str] = Counter()
    for round_ in range(rounds + 1):
        with start("--slots", "2", "--kv-ram", "0", "--kv-dir", str(folder), "--kv-disk", "8MiB") as server:
            server.wait_ready()
            assert not list(folder.glob("*/*.tmp"))
            seen["good files"] += int(verify(folder).split()[0])
            for index in draw.sample(range(len(POOL)), 2 if round_ < rounds else len(POOL)):
                answer = ask(server, plain(POOL[index], 6))
                assert tokens(answer) == expected[index]
                seen["cached tokens"] += cached(answer)
            statistics = disk_statistics(server)
            assert statistics["rejected"] == {}
            if round_ == rounds:
                return seen
            with ThreadPoolExecutor(2) as pool:
                clients = [pool.submit(pester, server, expected, draw.randrange(2**32)) for _ in range(2)]
                try:
                    wait_written(server, statistics["written"] + draw.randrange(6))
                    time.sleep(draw.random() * 0.02)  # not to wait for anything: this is the random moment
                finally:
                    server.signal(signal.SIGKILL)
                assert server.wait_exit() == -signal.SIGKILL
                seen["answers"] += sum(client.result() for client in clients)
            seen["kills in the middle of a write"] += bool(list(folder.glob("*/*.tmp")))
    raise AssertionError("unreachable")


def test_kill_9_at_random_moments(tmp_path: Path, start: Starter, expected: Expected) -> None:
    said = {index: expected(plain(ids, 6), COMPLETIONS) for index, ids in enumerate(POOL)}
    seen = survive_kills(start, tmp_path / "kv", said, rounds=6, seed=1)
    assert seen["cached tokens"] > 6 * BLOCK_TOKENS
    assert seen["answers"] > 0


def test_kill_9_of_a_hybrid(tmp_path: Path, start: Starter) -> None:
    """Its states lie on disk beside its KV."""
    FAMILIES["qwen3.5"](tmp_path / "model", vocab_size=3072, max_position_embeddings=1024)
    start_hybrid = partial(start, str(tmp_path / "model"))
    with start_hybrid("--kv-ram", "0") as server:
        said = {index: tokens(ask(server, plain(ids, 6))) for index, ids in enumerate(POOL)}
    seen = survive_kills(start_hybrid, tmp_path / "kv", said, rounds=4, seed=2)
    assert seen["cached tokens"] > 4 * BLOCK_TOKENS
    assert seen["answers"] > 0
