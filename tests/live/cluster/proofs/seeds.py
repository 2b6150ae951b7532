"""The five failures that cede exists to make impossible (DESIGN.md), tried through the front door.

Each is tried on one worker, so that nothing goes elsewhere: what is looked at is whether the front door lets through
what a worker alone does.  KV is forged, and truth is asked, at the worker's own address.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from runtime.kv.blocks import BLOCK_TOKENS
from tests.live.cluster.clusters import chat
from tests.live.cluster.parts import ForkedWorker, Parts
from tests.live.kv.forged import forge
from tests.live.kv.servers import cache_statistics, wait_saved
from tests.live.server import CHAT, Json, most_layers_after_cancel, stage, wait_for

CHUNK = 64  # tokens
FIXED = ("--chunk-tokens", str(CHUNK), "--slots", "1", "--speculate", "off")
LONG = "for name in names: print(name) " * 390  # some 3500 tokens
SHORT, OTHER = "def walk(tree): return tree.left\n" * 30, "import os, sys\n" * 60
HANG_UPS = 20  # while tokens are drafted
TOKENS = 12
ENDLESS = 3000  # tokens


@contextmanager
def one_worker(*flags: str) -> Iterator[tuple[Parts, ForkedWorker]]:
    """A front door with one worker."""
    with TemporaryDirectory() as folder, Parts(Path(folder), *flags, workers=1) as parts:
        yield parts, parts.workers[0]


def said(answer: Json) -> str:
    """Return the text of an answer."""
    text: str = answer["choices"][0]["message"]["content"]
    return text


def answered(parts: Parts, body: Json) -> Json:
    """Return the whole answer of the front door's."""
    status, answer = parts.ask(body)
    assert status == 200, answer
    told: Json = answer
    return told


def truth(worker: ForkedWorker, body: Json) -> str:
    """Return what the worker says to it without cached KV."""
    status, answer = worker.ask("POST", CHAT, body | {"cache_prompt": False}, **{"content-type": "application/json"})
    assert status == 200, answer
    return said(answer)


def cached(answer: Json) -> int:
    """Return how many of the prompt's tokens were not computed."""
    return int((answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens") or 0)


def seed_1() -> str:
    """A hang-up stops the reading of a prompt, and the retry goes on from there."""
    with one_worker(*FIXED) as (parts, worker):
        connection = parts.send(chat(LONG, 1, stream=True))
        (request_id,) = wait_for(worker.requests, "the request")
        worker.wait_committed(request_id, 4 * CHUNK)
        with worker.held():
            connection.close()
            worker.slots()
        (receipt,) = worker.wait_ended(request_id)
        kept = receipt["kept_tokens"]
        assert (receipt["reason"], stage(receipt["phase"])) == ("client_disconnect", "prefill"), receipt
        assert receipt["layers_after_cancel"] <= most_layers_after_cancel(), receipt
        assert receipt["wasted_tokens"] in (0, CHUNK), receipt
        answer = answered(parts, chat(LONG, 1))
        total = answer["usage"]["prompt_tokens"]
        assert kept < total
        assert cached(answer) >= kept // BLOCK_TOKENS * BLOCK_TOKENS
        return f"seed 1: {kept} of {total} tokens were read when the client hung up; the retry found {cached(answer)}"


def seed_2() -> str:
    """A queued request that hangs up leaves the active one alone."""
    body = chat(LONG, 150)
    with one_worker(*FIXED) as (parts, worker):
        active = parts.stream(body)
        (active_id,) = wait_for(worker.requests, "the active request")
        for phase in ("prefill", "decode"):
            worker.wait_state(active_id, phase)
            with worker.held():
                stays = worker.states(active_id)
                queued = parts.send(chat("ping", 8))
                (queued_id,) = wait_for(lambda: worker.requests().keys() - {active_id}, "the queued request")
                assert worker.states(queued_id) == ["queued"]
                queued.close()
                (receipt,) = worker.wait_ended(queued_id)
                assert (receipt["reason"], stage(receipt["phase"])) == ("client_disconnect", "queued"), receipt
                assert worker.states(active_id) == stays
        text = active.read()
        assert (active.finish_reason, active.error) == ("length", None)
        assert worker.receipts(active_id) == []
        assert text == truth(worker, body)
        return "seed 2: a queued request hung up in prefill and decode of the active one, which noticed nothing"


def seed_3() -> str:
    """A hang-up while tokens are drafted frees the slot, and the neighbour notices nothing."""
    draw, phases = random.Random(3), set[str]()
    beside = chat("class Tree:", ENDLESS)
    with one_worker("--slots", "2", "--speculate", "mtp", "--draft-tokens", "2") as (parts, worker):
        neighbour = parts.stream(beside)
        for attempt in range(HANG_UPS):
            victim = parts.stream(chat(f"# {attempt}\nimport os\n", ENDLESS))
            victim.read(draw.randrange(1, 20))
            wait_for(lambda: worker.requests()[victim.id]["states"][0] in ("draft", "verify"), "drafts")  # noqa: B023
            victim.close()
            (receipt,) = worker.wait_ended(victim.id)
            phases.add(receipt["phase"])
            assert receipt["reason"] == "client_disconnect", receipt
            assert receipt["layers_after_cancel"] <= most_layers_after_cancel(), receipt
            assert sum(slot["request_id"] is not None for slot in worker.slots()) <= 1
        text = neighbour.read(neighbour.pieces + 1)
        neighbour.close()
        worker.wait_idle()
        assert truth(worker, beside).startswith(text)
        return f"seed 3: {HANG_UPS} hung up amid {', '.join(sorted(phases))}; each slot was free, the neighbour exact"


def seed_4() -> str:
    """KV on disk that loads well and is wrong fails nobody, and only once."""
    with TemporaryDirectory() as name:
        kv = ("--kv-ram", "0", "--kv-dir", name, "--kv-audit", "1")
        with one_worker(*FIXED, *kv) as (parts, worker):
            body, numbers = chat(SHORT, TOKENS), count()
            expected = truth(worker, body)

            def evict() -> None:
                answered(parts, chat(f"{next(numbers)} {OTHER}", TOKENS))
                wait_saved(worker)

            assert said(answered(parts, body)) == expected
            evict()
            assert cached(answered(parts, body))
            evict()
            for file in Path(name).rglob("*.safetensors"):
                forge(file)
            for _ in range(2):  # the second finds what was computed instead
                assert said(answered(parts, body)) == expected
                assert cache_statistics(worker)["audit_failures"] == 1
                evict()
            return "seed 4: the first request that met forged KV was computed anew, and no other met it"


def seed_5() -> str:
    """Return what a slot holds, and what is said of it, stay the same while slots are used again."""
    shared, tail = "def f(x):\n    return x + 1\n" * 60, "print(f(2))\n"
    talks = [shared + tail, shared, OTHER * 3, shared + tail * 2, "ping", shared + "x" + tail, OTHER * 2, shared]
    with one_worker(*FIXED, "--kv-ram", "0") as (parts, worker):
        found = 0
        for number, talk in enumerate(talks):
            body: dict[str, Any] = chat(talk, TOKENS)
            gone = parts.stream(chat(f"{talk} {number}", ENDLESS))  # whose slot is used again half-way
            gone.read(1)
            gone.close()
            worker.wait_idle()
            answer = answered(parts, body)
            found += cached(answer)
            assert said(answer) == truth(worker, body), talk
        assert found
        return f"seed 5: {len(talks)} talks in one slot, each after a hang-up; {found} tokens found, each answer exact"


SEEDS: tuple[Callable[[], str], ...] = (seed_1, seed_2, seed_3, seed_4, seed_5)
