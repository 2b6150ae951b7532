"""A model with windows, one with experts and one with latents, over real sockets, against transformers.

Their contexts are long enough for rings: the windowed ones keep no more than 1040 positions of some layers or of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.kv.blocks import BLOCK_TOKENS
from tests.live.families.subject import CONTEXT, TOKENS, Subject, serving
from tests.live.http_client import Http1, completion
from tests.live.kv.servers import CHUNK
from tests.live.server import most_layers_after_cancel, stage, wait_for
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import random_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = 2000  # tokens of a prompt: rings lose its beginning


@pytest.fixture(scope="module", params=["mistral", "qwen2-window", "qwen3-moe", "deepseek2-lite"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    with serving(FAMILIES[request.param], tmp_path_factory.mktemp("family"), "--slots", "1") as served:
        yield served


def test_who_hangs_up_frees_the_slot_and_the_retry_goes_on(subject: Subject) -> None:
    server, ids = subject.server, random_tokens(LONG, below=256, seed=1)
    client = Http1(server, completion(ids, CONTEXT - LONG))
    (request_id,) = wait_for(server.requests, "the request")
    server.wait_committed(request_id, 4 * CHUNK)
    client.close()

    (receipt,) = server.wait_ended(request_id)
    assert receipt["reason"] == "client_disconnect"
    assert receipt["layers_after_cancel"] <= most_layers_after_cancel()
    (slot,) = server.slots()
    assert slot["state"] == "idle"
    assert slot["resident_tokens"] == receipt["kept_tokens"] >= 4 * CHUNK
    _, timings = subject.complete([*ids, 7])
    if stage(receipt["phase"]) == "prefill":  # on a faster machine it generates by then
        assert timings["cache_n"] == receipt["kept_tokens"]


def test_a_conversation_goes_on_after_another_had_the_slot(subject: Subject) -> None:
    ids = random_tokens(LONG, below=256, seed=2)
    output, _ = subject.complete(ids)
    subject.complete(random_tokens(LONG, below=256, seed=3))
    wait_for(lambda: subject.server.get("/v1/statistics")["manager"]["cache"]["unsaved_blocks"] == 0, "saved blocks")
    _, timings = subject.complete([*ids, *output[:-1], 7])
    blocks = (LONG + TOKENS - 1) // BLOCK_TOKENS
    assert timings["cache_n"] in (blocks * BLOCK_TOKENS, (blocks - 1) * BLOCK_TOKENS)  # the last may be audited
    assert subject.server.get("/v1/statistics")["manager"]["cache"]["audit_failures"] == 0


def test_what_is_looked_up_changes_no_token(subject: Subject) -> None:
    """The text repeats itself, so that drafts are made; that they are right is for the model to say."""
    ids = random_tokens(40, below=256, seed=4) * 6
    subject.complete(ids)
    assert subject.server.get("/v1/statistics")["speculation"]["proposer"] == "ngram"
