"""A model with windows, one with experts and one with latents, over real sockets, against transformers.

Their contexts are long enough for rings: the windowed ones keep no more than 1040 positions of some layers or of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from transformers import AutoModelForCausalLM

from runtime.kv.blocks import BLOCK_TOKENS
from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion
from tests.live.kv.servers import ask, plain
from tests.live.server import most_layers_after_cancel, stage, wait_for
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import random_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.live.server import Json, Server

CONTEXT = 4096
LONG = 2000  # tokens of a prompt: rings lose its beginning
CHUNK = 64
TOKENS = 16
ROUNDING = 1e-4  # of a log-probability in float32, after so many tokens


class Subject(NamedTuple):
    """A server, and transformers' model of its checkpoint."""

    server: Server
    reference: Any


@pytest.fixture(scope="module", params=["mistral", "qwen2-window", "qwen3-moe", "deepseek2-lite"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    folder = tmp_path_factory.mktemp("family")
    FAMILIES[request.param](folder / "model", max_position_embeddings=CONTEXT)
    flags = ("--slots", "1", "--chunk-tokens", str(CHUNK), "--device", "cpu", "--dtype", "float32")
    with ForkedServer(folder, str(folder / "model"), *flags) as server:
        yield Subject(server, AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32))


@torch.inference_mode()
def check(subject: Subject, ids: Sequence[int], output: Sequence[int]) -> None:
    """Each token scores as high with transformers as any other, to within the rounding of sums."""
    assert len(output) == TOKENS
    logits = subject.reference(torch.tensor([[*ids, *output[:-1]]])).logits[0, len(ids) - 1 :]
    scores = logits.float().log_softmax(-1)
    chosen = scores.gather(1, torch.tensor(output)[:, None])[:, 0]
    assert (chosen >= scores.amax(dim=1) - ROUNDING).all()


def complete(subject: Subject, ids: list[int]) -> tuple[list[int], Json]:
    """Return the tokens that follow a prompt, which are checked, and what it cost."""
    answer = ask(subject.server, plain(ids, TOKENS))
    output: list[int] = answer["choices"][0]["token_ids"]
    check(subject, ids, output)
    timings: Json = answer["timings"]
    return output, timings


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
    _, timings = complete(subject, [*ids, 7])
    if stage(receipt["phase"]) == "prefill":  # on a faster machine it generates by then
        assert timings["cache_n"] == receipt["kept_tokens"]


def test_a_conversation_goes_on_after_another_had_the_slot(subject: Subject) -> None:
    ids = random_tokens(LONG, below=256, seed=2)
    output, _ = complete(subject, ids)
    complete(subject, random_tokens(LONG, below=256, seed=3))
    wait_for(lambda: subject.server.get("/v1/statistics")["manager"]["cache"]["unsaved_blocks"] == 0, "saved blocks")
    _, timings = complete(subject, [*ids, *output[:-1], 7])
    blocks = (LONG + TOKENS - 1) // BLOCK_TOKENS
    assert timings["cache_n"] in (blocks * BLOCK_TOKENS, (blocks - 1) * BLOCK_TOKENS)  # the last may be audited
    assert subject.server.get("/v1/statistics")["manager"]["cache"]["audit_failures"] == 0


def test_what_is_looked_up_changes_no_token(subject: Subject) -> None:
    """The text repeats itself, so that drafts are made; that they are right is for the model to say."""
    ids = random_tokens(40, below=256, seed=4) * 6
    complete(subject, ids)
    assert subject.server.get("/v1/statistics")["speculation"]["proposer"] == "ngram"
