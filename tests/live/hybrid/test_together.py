"""Several sequences of a hybrid at a time: choices of one prompt, and neighbours of one that ends early."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.live.families.subject import CONTEXT, Subject, serving
from tests.live.http_client import Http1, completion
from tests.live.kv.servers import CHUNK, answer_of
from tests.live.server import wait_for
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import random_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = 1500  # tokens of a prompt


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    with serving(FAMILIES["qwen3.5"], tmp_path_factory.mktemp("hybrid"), "--slots", "4") as served:
        yield served


def test_choices_of_one_prompt_go_on_from_one_state(subject: Subject) -> None:
    ids = random_tokens(LONG, below=256, seed=1)
    before = subject.server.get("/v1/statistics")["manager"]["prefill_tokens"]
    with Http1(subject.server, completion(ids, 16, n=3, stream=False)) as client:
        choices = [choice["token_ids"] for choice in answer_of(client)["choices"]]
    assert choices[1:] == choices[:1] * 2
    subject.check(ids, choices[0])
    read = subject.server.get("/v1/statistics")["manager"]["prefill_tokens"] - before
    assert read <= LONG + 2 * CHUNK, "the prompt was read more than once"


def test_neighbours_of_hang_ups_say_what_they_say_alone(subject: Subject) -> None:
    server = subject.server
    prompts = [random_tokens(30, below=256, seed=2), random_tokens(20, below=256, seed=3) * 4]
    with ExitStack() as stack:
        neighbours = [stack.enter_context(Http1(server, completion(ids, CONTEXT - 100))) for ids in prompts]
        for neighbour in neighbours:
            neighbour.read_tokens(5)
        victim = Http1(server, completion(random_tokens(LONG, below=256, seed=4), 1))
        (request_id,) = wait_for(lambda: server.requests().keys() - {one.id for one in neighbours}, "the victim")
        server.wait_committed(request_id, CHUNK)
        with server.held():
            victim.close()
            server.slots()
        server.wait_ended(request_id)
        with Http1(server, completion(random_tokens(50, below=256, seed=5), 3000)) as victim:
            victim.read_tokens(5)
        server.wait_ended(victim.id)
        said = [neighbour.read_tokens(len(neighbour.tokens) + 40) for neighbour in neighbours]
    for ids, output in zip(prompts, said, strict=True):
        subject.check(ids, output)
