"""A slot of a hybrid that one prompt after another goes on in: what an earlier one left changes no token (seed 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.families.subject import Subject, serving
from tests.live.http_client import Http1, completion
from tests.live.kv.servers import CHUNK
from tests.live.server import wait_for
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import random_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.live.server import Json

LONG = 1500  # tokens of a prompt
TURN = 70  # tokens that a user says


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    with serving(FAMILIES["lfm2"], tmp_path_factory.mktemp("hybrid"), "--slots", "1", "--kv-ram", "0") as served:
        yield served


def abort(subject: Subject, ids: Sequence[int]) -> int:
    """Hang up while the prompt is read; how many tokens the slot is left with."""
    client = Http1(subject.server, completion(ids, 1))
    (request_id,) = wait_for(subject.server.requests, "the request")
    subject.server.wait_committed(request_id, 4 * CHUNK)
    client.close()
    subject.server.wait_ended(request_id)
    (slot,) = subject.server.slots()
    left: int = slot["resident_tokens"]
    assert left >= 4 * CHUNK
    return left


def test_what_follows_an_aborted_prompt_says_what_it_says_on_a_fresh_server(subject: Subject) -> None:
    ids = random_tokens(LONG, below=256, seed=1)
    left = abort(subject, ids)
    shorter = left - CHUNK // 2
    _, timings = subject.complete(ids[:shorter])
    assert 0 < timings["cache_n"] < shorter
    left = abort(subject, ids)
    _, timings = subject.complete([*ids[: left // 2], *random_tokens(10, below=256, seed=2), *ids[left // 2 + 10 :]])
    assert timings["cache_n"] <= left // 2 + 1  # one token may be as it was; early snapshots may have made way
    _, timings = subject.complete(ids)
    assert timings["cache_n"] <= left // 2 + 1


def test_a_conversation_without_its_thoughts_reads_little_more_than_is_new(subject: Subject) -> None:
    said = random_tokens(LONG, below=256, seed=3)
    output: list[int] = []
    timings: Json
    for turn in range(5):
        answer, thoughts = output[len(output) // 2 :], len(output) // 2
        shared = len(said)
        new = [*answer, *random_tokens(TURN, below=256, seed=10 + turn)]
        output, timings = subject.complete([*said, *new], 40)
        if turn:
            assert thoughts, "nothing was dropped"
            assert timings["cache_n"] >= shared - CHUNK, "more was read again than a chunk beside what is new"
        said += new
