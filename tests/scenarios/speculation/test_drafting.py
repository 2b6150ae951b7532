"""Speculation in a whole engine over the stand-in model: exact, batched, trimmed, and let go between any two steps."""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import trio

from actors.config import EngineConfig
from actors.core.generation import Finished, Token
from actors.core.life import State
from actors.engine import Engine, open_engine
from runtime.loading.served import Proposer
from runtime.step.executor import SimulatedExecutor
from runtime.testing.simulated import SimulatedDrafter, SimulatedModel, chain, stand_in
from runtime.text.tokenizer import Tokenizer
from tests.fakes.simulation import VOCABULARY, AtStep, ask, open_drafter, prompt, run, simulated
from tests.models.small_tokenizers import byte_level

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from actors.core.generation import GenerationRequest
    from actors.core.slot_views import SlotView
    from runtime.step.job import StepJob
    from runtime.step.step import Segment, StepResult

ROOT = 0x5EED
MODELS = (Proposer.DRAFT, Proposer.MTP, Proposer.ASSISTANT)
SOURCES = (Proposer.NGRAM, *MODELS)


def slots_of(engine: Engine) -> list[SlotView]:
    """Return all slots, free or not."""
    return [engine.manager.table.slot(slot.id) for slot in engine.slots()]


class Recorder(SimulatedExecutor):
    """Keeps what it was given, and looks at the drafter's KV before each step."""

    def __init__(self, model: SimulatedModel, drafter: SimulatedDrafter) -> None:
        super().__init__(model, lambda rows: 0.001 + 0.0001 * rows, drafter)
        self.model, self.drafter = model, drafter
        self.steps: list[tuple[bool, list[Segment]]] = []
        self.engine: Engine
        self.fail_draft_of: int | None = None  # a slot
        self._awaited: tuple[int, State] | None = None
        self._reached = trio.Event()

    async def wait_for(self, slot: int, state: State) -> int:
        """Return while a step runs in which `slot` is in `state`; how many steps there have been."""
        self._awaited = (slot, state)
        self._reached = trio.Event()
        await self._reached.wait()
        return len(self.steps)

    async def run_step(self, job: StepJob) -> StepResult:
        """Note the step, check what it begins with, and run it."""
        self.steps.append((job.drafting, list(job.segments)))
        if self._awaited in [(slot.id, slot.state) for slot in self.engine.slots()]:
            self._reached.set()
        assert not self.engine.manager.unread, "a step begins with mail unread"
        assert all(segment.mark.at is None for segment in job.segments), "a step begins with a cancelled segment"
        if job.drafting and any(segment.slot == self.fail_draft_of for segment in job.segments):
            raise RuntimeError("the drafter ran into a planted fault")
        return await super().run_step(job)

    def check_draft_kv(self) -> None:
        """The drafter's KV is that of the slot's own tokens and, at rest, reaches no farther than they do."""
        for slot in slots_of(self.engine):
            assert slot.owner is not None or slot.draft_length <= len(slot.tokens)
            state = ROOT
            for position in range(slot.draft_first, min(slot.draft_length, len(slot.tokens))):
                state = chain(state, slot.tokens[position])
                assert self.drafter.kv[slot.pages.place(position)] == state, (slot, position)


@dataclass
class Speculation:
    """An engine that speculates, and what its clients got."""

    engine: Engine
    executor: Recorder
    got: dict[str, list[list[int]]] = field(default_factory=dict)
    ends: dict[str, list[Finished]] = field(default_factory=dict)

    async def client(self, asked: GenerationRequest, *, hang_up_after: float = math.inf, arrives: float = 0.0) -> None:
        """Be a client: ask, read, and hang up after so many tokens."""
        await trio.sleep(arrives)
        tokens: list[list[int]] = [[] for _ in asked.prompts]
        self.got[asked.id], self.ends[asked.id] = tokens, []
        with trio.CancelScope() as connection:
            async with self.engine.open_request(asked) as request:
                async for event in request:
                    if isinstance(event, Token):
                        tokens[event.index].append(event.token_id)
                    else:
                        assert isinstance(event, Finished), event
                        self.ends[asked.id].append(event)
                    if sum(map(len, tokens)) >= hang_up_after:
                        connection.cancel()
        for index, start in enumerate(asked.prompts):
            assert tokens[index] == self.executor.model.continuation(start, len(tokens[index])), asked.id

    def segments(self, slot: int, *, drafting: bool) -> list[Segment]:
        """Return what a slot was in: steps of the drafter, or of the target."""
        return [s for drafted, step in self.executor.steps if drafted == drafting for s in step if s.slot == slot]


def _model(source: Proposer, slots: int) -> SimulatedModel:
    # Of few tokens for lookups, so that pairs of them come again.
    vocabulary = 5 if source is Proposer.NGRAM else VOCABULARY
    return SimulatedModel(slots=slots, context=256, num_layers=3, vocab_size=vocabulary)


@asynccontextmanager
async def open_speculation(
    source: Proposer,
    *,
    accuracy: float = 0.8,
    draft_tokens: int | None = 3,
    slots: int = 4,
    end_ids: Sequence[int] = (),
) -> AsyncIterator[Speculation]:
    model = _model(source, slots)
    drafter = open_drafter(model, source, accuracy) or SimulatedDrafter(model, accuracy=accuracy)
    executor = Recorder(model, drafter)
    served = stand_in(model, Tokenizer(byte_level()), end_ids=end_ids)
    config = EngineConfig(slots=slots, chunk_tokens=8, speculate=source, draft_tokens=draft_tokens)
    async with open_engine(executor, served, config) as engine:
        executor.engine = engine
        yield Speculation(engine, executor)
        engine.check_integrity()
        executor.check_draft_kv()
        assert all(slot.request_id is None for slot in engine.slots())


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("draft_tokens", [1, 2, 5, 8, None])
@simulated()
async def test_speculation_changes_no_token(source: Proposer, draft_tokens: int | None) -> None:
    async with open_speculation(source, draft_tokens=draft_tokens) as running:
        async with trio.open_nursery() as clients:
            for i in range(6):
                asked = ask(str(i), prompt(5 + 9 * i, start=3 + i), max_tokens=30, speculate=i != 4)
                clients.start_soon(running.client, asked)
        assert all(len(tokens[0]) == 30 for tokens in running.got.values())
        if source in MODELS:
            assert running.engine.statistics().speculation.accepted_tokens > 0
        (plain,) = running.ends["4"]
        assert plain.timings.draft_n == 0


@pytest.mark.parametrize("source", MODELS)
@pytest.mark.parametrize("accuracy", [0.0, 0.5, 1.0])
@simulated()
async def test_drafts_are_as_good_as_the_drafter(source: Proposer, accuracy: float) -> None:
    """Its KV is never stale: it would guess by chance."""
    async with open_speculation(source, accuracy=accuracy) as running:
        for turn in range(3):  # each goes on from what the one before has left in the slot
            await running.client(ask(f"turn {turn}", prompt(20 + 15 * turn), max_tokens=40))
        drafter, model = running.executor.drafter, running.executor.model
        for turn in range(3):
            (end,) = running.ends[f"turn {turn}"]
            expected = _rounds(model, drafter, prompt(20 + 15 * turn), 40, most=3)
            assert (end.timings.draft_n, end.timings.draft_n_accepted) == expected


def _rounds(
    model: SimulatedModel, drafter: SimulatedDrafter, start: list[int], tokens: int, most: int
) -> tuple[int, int]:
    """Drafted and accepted tokens of a request alone, if nothing is ever stale."""
    output = model.continuation(start, tokens)
    state, states = ROOT, []
    for token in [*start, *output]:
        state = chain(state, token)
        states.append(state)
    right = [drafter.guess(state) == token for state, token in zip(states[len(start) :], output[1:], strict=False)]
    done, drafted, accepted = 1, 0, 0
    while done < tokens:
        k = min(most, tokens - done - 1)
        run = next((i for i in range(k) if not right[done - 1 + i]), k)
        drafted, accepted, done = drafted + k, accepted + run, done + run + 1
    return drafted, accepted


@pytest.mark.parametrize("source", MODELS)
@simulated()
async def test_a_hang_up_while_drafting_is_seen_before_the_next_draft_step(source: Proposer) -> None:
    async with open_speculation(source, accuracy=1.0, draft_tokens=8, slots=2) as running:
        async with trio.open_nursery() as clients:
            clients.start_soon(running.client, ask("neighbour", prompt(12, start=5), max_tokens=60))
            with trio.CancelScope() as connection:
                async with running.engine.open_request(ask("victim", prompt(9), max_tokens=200)) as request:
                    async for _ in request:
                        if len(running.segments(_slot_of(running, "victim"), drafting=True)) > 20:
                            break
                    slot = _slot_of(running, "victim")
                    given = await running.executor.wait_for(slot, State.DRAFT)
                    connection.cancel()
            later = [s for _, step in running.executor.steps[given:] for s in step if s.slot == slot]
            assert not later
            (receipt,) = running.engine.receipts(10)
            assert receipt.phase == "draft"
            assert receipt.layers_after_cancel <= 1
            assert receipt.accepted_tokens > 0
            await running.client(ask("retry", prompt(9), max_tokens=30))


def _slot_of(running: Speculation, request_id: str) -> int:
    return next(slot.id for slot in running.engine.slots() if slot.request_id == request_id)


@pytest.mark.parametrize("source", MODELS)
@simulated()
async def test_a_fault_of_the_drafter_costs_only_the_drafts_of_whom_it_meets(source: Proposer) -> None:
    async with open_speculation(source, slots=2) as running:
        async with trio.open_nursery() as clients:
            clients.start_soon(running.client, ask("a", prompt(9, start=4), max_tokens=40))
            clients.start_soon(running.client, ask("b", prompt(9, start=5), max_tokens=40))
            await trio.sleep(0.05)
            running.executor.fail_draft_of = _slot_of(running, "a")
        assert [len(tokens[0]) for tokens in running.got.values()] == [40, 40]
        drafted = {name: ends[0].timings.draft_n for name, ends in running.ends.items()}
        assert drafted["b"] > drafted["a"] > 0
        assert running.engine.statistics().manager.failed_steps >= 1


@pytest.mark.parametrize("source", SOURCES)
@simulated()
async def test_an_end_inside_a_run_of_accepted_drafts_cuts_there(source: Proposer) -> None:
    start = prompt(10)
    output = _model(source, 1).continuation(start, 40)
    for end in (1, 2, 5, 6, 7, 20):
        async with open_speculation(source, accuracy=1.0, draft_tokens=8, end_ids=(output[end],)) as running:
            length = output.index(output[end]) + 1  # the token may have come before
            await running.client(ask("x", start, max_tokens=40))
            assert running.got["x"] == [output[:length]]
            slot = next(slot for slot in slots_of(running.engine) if slot.tokens)
            assert slot.tokens == [*start, *output[: length - 1]]
            assert slot.draft_length <= len(slot.tokens)


@pytest.mark.parametrize("source", MODELS)
@simulated()
async def test_draft_steps_are_shared(source: Proposer) -> None:
    """Requests that draft at the same time do so in the same steps, and their rows are verified in the same step."""
    async with open_speculation(source, accuracy=1.0, draft_tokens=4) as running:
        async with trio.open_nursery() as clients:
            for i in range(4):
                clients.start_soon(running.client, ask(str(i), prompt(8, start=3 + i), max_tokens=60))
        sizes = [len(step) for drafting, step in running.executor.steps if drafting]
        assert sorted(sizes)[len(sizes) // 2] == 4
        verified = [step for drafting, step in running.executor.steps if not drafting and step[0].drafts]
        assert max(sum(len(s.drafts) for s in step) for step in verified) == 16


# --- a cancel at every moment -----------------------------------------------------------------------------------------


def _play(source: Proposer, seed: int, n: int | None) -> tuple[int, str]:
    """Hang up on one of two before the n-th step that any task takes; how many there are, and the receipt's phase."""
    connection: list[trio.CancelScope] = []
    phases = [""]
    instrument = AtStep(n, lambda: connection[0].cancel(), lambda _: bool(connection))

    async def main() -> None:
        async with open_speculation(source, accuracy=0.7, slots=2) as running, trio.open_nursery() as clients:
            clients.start_soon(running.client, ask("neighbour", prompt(6, start=5), max_tokens=14))
            with trio.CancelScope() as scope:
                connection.append(scope)
                await running.client(ask("victim", [*prompt(7), 9, 4, 9, 4, 9, 4], max_tokens=14))
            connection.clear()
            for receipt in running.engine.receipts(9):
                phases[0] = receipt.phase
                assert receipt.layers_after_cancel <= 1
                assert receipt.last_kernel_at is None or receipt.last_kernel_at <= receipt.detected_at + 0.003
                assert receipt.drafted_tokens >= receipt.accepted_tokens
            running.executor.check_draft_kv()
            await running.client(ask("retry", [*prompt(7), 9, 4, 9, 4, 9, 4], max_tokens=9))
        assert len(running.got["neighbour"][0]) == 14
        assert len(running.got["retry"][0]) == 9

    run(main, seed=seed, instruments=[instrument])
    return instrument.steps, phases[0]


@pytest.mark.parametrize(("seed", "source"), list(enumerate(SOURCES)))
def test_a_cancel_at_every_checkpoint(seed: int, source: Proposer) -> None:
    """`Recorder` sees that each is consumed before the next step of anyone, and that no step names its slot again."""
    moments, _ = _play(source, seed, None)
    phases = {_play(source, seed, n)[1] for n in range(moments)}
    assert {"prefill", "verify"} <= phases
    assert "draft" in phases or source is Proposer.NGRAM
