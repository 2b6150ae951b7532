"""One line for each request that ended, in words and in figures; and whose each line of the log is."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import trio
from structlog.contextvars import get_contextvars

from actors.core.account import Account
from actors.core.events import StageBegun
from actors.core.generation import Failed, Finished, FinishReason, GenerationRequest, Timings
from actors.core.life import State
from actors.core.observer import Observer
from actors.core.receipts import CancelReason
from actors.generating.request_log import (
    LEFT_OUT,
    SHOWN_CHARACTERS,
    SHOWN_TOKENS,
    Ending,
    RequestLog,
    Seconds,
    shortened,
)
from runtime.errors import CedeError, DeadlineExceeded
from runtime.loading.served import Proposer
from runtime.sampling.params import SamplingParams
from runtime.testing.faults import Chaos, DeviceError, FaultPlan
from tests.fakes.simulation import ask, open_simulation, prompt, simulated

ACCOUNT = Account(State.DECODE, slot=0, cached=2, computed=9, committed=7, drafted=6, accepted=4)
SECONDS = Seconds(0.5, 0.25, 1.0)
TIMINGS = Timings(prompt_n=3, cache_n=2, prompt_ms=5.0, predicted_n=1, predicted_ms=1000.0)


def finished(reason: FinishReason, tokens: int = 11, cancel: CancelReason | None = None, index: int = 0) -> Ending:
    last = Finished(index, reason, "", 5, 2, tokens, TIMINGS, cancelled=cancel)
    return Ending(last, tokens, ACCOUNT, SECONDS, cancel)


def failed(error: CedeError, cancel: CancelReason | None = None) -> Ending:
    return Ending(Failed(0, error), 0, Account(), Seconds(0.0, 0.0, 0.0), cancel)


async def line_of(caplog: pytest.LogCaptureFixture, *endings: Ending, owner: str | None = None) -> logging.LogRecord:
    """The record that a log of these endings writes."""
    asked = GenerationRequest("cmpl-1", ((1, 2, 3, 4, 5),) * len(endings), SamplingParams(), owner=owner)
    log = RequestLog(asked, "a-model")
    for ending in endings:
        log.add(ending)
    with caplog.at_level("INFO", "cede.engine"):
        log.write()
    (record,) = caplog.records
    return record


@pytest.mark.parametrize(
    ("ending", "says"),
    [
        (finished(FinishReason.STOP), "200 stop, 5 prompt tokens (2 cached), 11 tokens (4 of 6 drafts) in "),
        (
            finished(FinishReason.CANCELLED, 3, CancelReason.STALLED_READER),
            "499 cancelled (stalled_reader in decode), 5 prompt tokens (2 cached), 3 tokens ",
        ),
        (
            finished(FinishReason.CANCELLED, 3, CancelReason.OPERATOR),
            "200 cancelled (operator in decode), 5 prompt tokens",
        ),
        (
            failed(DeadlineExceeded("late"), CancelReason.DEADLINE),
            "504 deadline_exceeded (deadline in queued), 5 prompt tokens (0 cached), 0 tokens in ",
        ),
        (failed(CedeError("oh")), "500 failed, 5 prompt tokens"),
    ],
)
async def test_how_a_request_ended(ending: Ending, says: str, caplog: pytest.LogCaptureFixture) -> None:
    assert (await line_of(caplog, ending)).getMessage().startswith(f"cmpl-1: {says}")


async def test_the_figures_are_those_of_all_generations_and_the_times_the_longest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, other = finished(FinishReason.STOP, 11), finished(FinishReason.LENGTH, 21, index=1)
    record = await line_of(caplog, one, other, owner="alice")
    assert re.fullmatch(
        r"cmpl-1: 200 stop length, 10 prompt tokens \(4 cached\), 32 tokens \(8 of 12 drafts\) in \d\.\d\d s "
        r"\(0\.50 queued, 0\.25 prefill\), 30\.0 tokens/s, key alice",
        record.getMessage(),
    )
    figures: dict[str, Any] = {
        "request_id": "cmpl-1",
        "status": 200,
        "ended": "stop length",
        "cancel_reason": None,
        "cancel_phase": None,
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "generated_tokens": 32,
        "drafted_tokens": 12,
        "accepted_tokens": 8,
        "queued_seconds": 0.5,
        "prefill_seconds": 0.25,
        "decode_seconds": 1.0,
        "tokens_per_second": 30.0,
        "key": "alice",
        "model": "a-model",
    }
    assert {name: getattr(record, name) for name in figures} == figures


def spell(tokens: Sequence[int]) -> str:
    """One letter for each token."""
    return "".join(chr(97 + token % 26) for token in tokens)


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        (range(3), "abc"),
        (range(SHOWN_TOKENS), spell(range(SHOWN_TOKENS))),
        (range(10_000), spell(range(512)) + LEFT_OUT + spell(range(10_000 - 512, 10_000))),
    ],
    ids=["short", "not long", "long"],
)
def test_of_a_long_text_its_beginning_and_its_end_are_logged(tokens: Sequence[int], shown: str) -> None:
    lengths = list[int]()

    def spell_some(some: Sequence[int]) -> str:
        lengths.append(len(some))
        return spell(some)

    assert shortened(tokens, spell_some) == shown
    assert sum(lengths) <= SHOWN_TOKENS, "no more than that is turned into text"


def test_of_tokens_that_are_long_texts_it_is_characters_that_are_counted() -> None:
    text = shortened(range(500), lambda some: "".join(f"<{token}>" * 3 for token in some))
    assert len(text) == SHOWN_CHARACTERS + len(LEFT_OUT)
    assert (text[:6], text[-5:]) == ("<0><0>", "<499>")


@simulated()
async def test_prompts_and_answers_are_logged_only_where_that_is_wanted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for wanted in (False, True):
        caplog.clear()
        async with open_simulation(slots=2, log_texts=wanted) as sim:
            tokenizer = sim.engine.model.tokenizer
            asked = ask("a", *(tuple(tokenizer.encode(text)) for text in ("oh", "my\nown")), max_tokens=3)
            story = await sim.client(asked)
            await sim.client(ask("b", prompt(200), max_tokens=3), hang_up_at=trio.current_time() + 0.01)
        texts = {
            (line["request_id"], line["index"]): (line["prompt_text"], line["answer_text"])
            for line in map(vars, caplog.records)
            if "prompt_text" in line
        }
        answers = [tokenizer.decode(story.tokens(index)) for index in range(2)]
        if wanted:
            assert set(texts) == {("a", 0), ("a", 1), ("b", 0)}
            assert texts["a", 0] == ("<|bos|>oh", answers[0])
            assert texts["a", 1] == ("<|bos|>my\nown", answers[1])
            assert texts["b", 0][1] == ""
            assert r"a/1: prompt '<|bos|>my\nown', answer " in caplog.text
        else:
            assert texts == {}
            assert not [text for text in ("<|bos|>oh", "own", *answers) if repr(text)[1:-1] in caplog.text]


@simulated()
async def test_the_figures_of_a_cancel_are_those_of_its_receipt(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "cede.engine")
    async with open_simulation(slots=1, speculate=Proposer.DRAFT) as sim:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(sim.client, ask("a", prompt(200), max_tokens=40), hang_up_after=5))
            await trio.sleep(0.01)  # into the first one's prompt
            nursery.start_soon(partial(sim.client, ask("b", prompt(50, start=70), max_tokens=4), hang_up_at=0.05))
        receipts = {receipt.request_id: receipt for receipt in sim.engine.receipts()}
    lines = {vars(record)["request_id"]: record for record in caplog.records if hasattr(record, "ended")}
    assert set(lines) == {"a", "b"}
    for name, record in lines.items():
        line, receipt = vars(record), receipts[name]
        assert (line["cancel_reason"], line["cancel_phase"]) == (receipt.reason, receipt.phase)
        assert (line["status"], line["prompt_tokens"]) == (499, receipt.prompt_tokens)
        assert (line["drafted_tokens"], line["accepted_tokens"]) == (receipt.drafted_tokens, receipt.accepted_tokens)
    assert receipts["b"].phase == "queued"
    a = vars(lines["a"])
    assert a["queued_seconds"] + a["prefill_seconds"] + a["decode_seconds"] == pytest.approx(a["seconds"], abs=1e-5)


class _Stages(Observer):
    """Notes what is bound to a generation's task whenever it turns to another stage."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []

    def stage_begun(self, event: StageBegun) -> None:
        """Note it."""
        self.told.append((event.request_id, get_contextvars().get("request_id")))


@simulated()
async def test_every_line_that_belongs_to_a_request_has_its_id(caplog: pytest.LogCaptureFixture) -> None:
    """From the request's own tasks it is bound; what the slot manager's task says of a request says whose it is."""
    caplog.set_level("INFO", "cede")
    bound: list[tuple[str, str | None]] = []

    def note(record: logging.LogRecord) -> bool:
        bound.append((record.getMessage(), vars(record).get("request_id") or get_contextvars().get("request_id")))
        return True

    stages = _Stages()
    caplog.handler.addFilter(note)
    faults = Chaos(FaultPlan((DeviceError(step=2), DeviceError(step=3))))
    async with open_simulation(slots=2, chaos=faults) as sim:
        with sim.engine.observed_by(stages):
            async with trio.open_nursery() as nursery:
                for name in ("first", "second"):
                    nursery.start_soon(sim.client, ask(name, prompt(9, start=len(name)), max_tokens=9))
    caplog.handler.removeFilter(note)
    of_a_request = {message: of for message, of in bound if "first" in message or "second" in message}
    assert len(of_a_request) >= 4, "each one's end, and what failed"
    assert all(of is not None and of in message for message, of in of_a_request.items())
    assert {name for name, _ in stages.told} == {"first", "second"}
    assert all(bound_to == name for name, bound_to in stages.told), "in the requests' own tasks"
    assert get_contextvars() == {}, "nothing is left bound to a task that serves nobody"
