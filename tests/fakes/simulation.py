"""A whole engine in virtual time: clients that misbehave, faults to order, and a scheduler fixed by one integer.

    @simulated()
    async def test_a_hang_up_frees_the_slot() -> None:
        async with open_simulation(slots=1) as sim:
            victim = await sim.client(ask("a", prompt(40)), hang_up_after=3)
            assert victim.receipt.kept_tokens == 42

The model is `runtime.testing.simulated`'s: each token is a function of the exact tokens before it, so `continuation`
says what any request must get.  The invariants of `tests.sim.invariants` are checked at every step's boundaries, and
at the end that nothing is left behind.  Nothing here sleeps for real.

This is the front door; the parts are in `tests.sim`, and `tests.fakes.kv_simulation` adds KV outside the slots.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import trio

from actors.config import EngineConfig
from actors.core.generation import Event, GenerationRequest
from actors.core.receipts import CancelReason
from actors.engine import Engine, open_engine
from actors.generating.grammars import Compiler, InlineGrammars
from actors.manager.slot_manager import SlotManager
from actors.testing.chaos import open_chaos
from runtime.chat.chat import Chat
from runtime.errors import CedeError
from runtime.kv.rings import Rings
from runtime.loading.served import Proposer
from runtime.testing.faults import Chaos, Fault
from runtime.testing.simulated import SimulatedAssistant, SimulatedDrafter, SimulatedModel
from runtime.text.tokenizer import Tokenizer
from tests.models.small_tokenizers import byte_level
from tests.sim.clients import GREEDY, Story, ask, prompt
from tests.sim.device import CULPRIT, VOCABULARY, Faults, FaultyModel, FaultyServed
from tests.sim.endings import check_account, check_exact, check_prompt_outputs
from tests.sim.grammars import StandInGrammars
from tests.sim.scheduler import AtStep, Hung, run, seeded_scheduler, simulated
from tests.sim.watch import Run, Step, Watch

__all__ = [
    "CULPRIT",
    "GREEDY",
    "VOCABULARY",
    "AtStep",
    "Faults",
    "FaultyModel",
    "FaultyServed",
    "Hung",
    "Run",
    "Simulation",
    "Step",
    "Story",
    "Watch",
    "ask",
    "open_drafter",
    "open_simulation",
    "prompt",
    "run",
    "seeded_scheduler",
    "simulated",
    "windowed",
]


class Simulation:
    """An engine under watch, and everything that its clients saw.  Made by `open_simulation`."""

    def __init__(self, engine: Engine, model: FaultyModel, watch: Watch, faults: Faults) -> None:
        self.engine = engine
        self.model = model
        self.watch = watch
        watch.ageing = engine.config.ageing_seconds
        self.faults = faults
        self.stories: dict[str, Story] = {}

    @property
    def steps(self) -> list[Step]:
        """All steps that ended, or raised."""
        return self.watch.steps

    @property
    def fired(self) -> list[Fault]:
        """The plan's faults that have happened."""
        return self.watch.chaos.fired

    @property
    def manager(self) -> SlotManager:
        """The engine's, to be looked at."""
        return self.engine.manager

    def expect(self, asked: GenerationRequest) -> Story:
        """The story of a client that is yet to come, for whoever wants to hang up for it."""
        return self.stories.setdefault(asked.id, Story(asked))

    async def client(
        self,
        asked: GenerationRequest,
        *,
        arrives: float = 0.0,
        hang_up_after: int | None = None,
        hang_up_at: float = math.inf,
        pause: float = 0.0,
        reads: bool = True,
    ) -> Story:
        """Ask, and read to the end, unless told to behave worse.  Returns once the request is over and its slot free.

        Args:
            asked: what it asks.
            arrives: virtual time of the call; now if that has passed.
            hang_up_after: this many events read (0: as soon as the request is open).
            hang_up_at: virtual time.
            pause: seconds between two reads.
            reads: False to leave everything in the buffer and only hold the connection.
        """
        story = self.expect(asked)
        if asked.sampling.min_tokens:
            self.watch.invariants.not_predicted.add(asked.id)
        if asked.grammar is not None:
            self.watch.invariants.held[asked.id] = asked
        await trio.sleep(max(0.0, arrives - trio.current_time()))
        arrived = trio.current_time()
        story.connection.deadline = min(story.connection.deadline, hang_up_at)
        request = None
        try:
            with story.connection:
                async with self.engine.open_request(asked) as request:
                    story.opened = True
                    await self._read(story, aiter(request), hang_up_after, pause, reads)
        except CedeError as error:
            story.error = error
        finally:
            if story.hung_up and story.left_at is None and story.connection.deadline < math.inf:
                story.left_at = max(arrived, story.connection.deadline)
            story.unread = [] if request is None else list(iter(request.event_nowait, None))
            story.ended = True
            story.receipts = [r for r in self.engine.receipts(10_000) if r.request_id == asked.id]
        return story

    async def _read(
        self, story: Story, events: AsyncIterator[Event], hang_up_after: int | None, pause: float, reads: bool
    ) -> None:
        if not reads:
            await trio.sleep_forever()
        while True:
            if hang_up_after is not None and len(story.events) >= hang_up_after:
                story.left_at = trio.current_time()
                story.connection.cancel()
            try:
                event = await anext(events)
            except StopAsyncIteration:
                return
            story.events.append(event)
            story.times.append(trio.current_time())
            await trio.sleep(pause)

    def delete(self, request_id: str) -> None:
        """Cancel a request as an operator does; no harm is done if there is none."""
        if self.engine.cancel(request_id) and request_id in self.stories:
            story = self.stories[request_id]
            story.deleted_at = trio.current_time() if story.deleted_at is None else story.deleted_at

    def end_group(self, owner: str | None, name: str) -> list[str]:
        """End a group, as whoever has its owner's key does; returns the ids of the requests in it."""
        expected = self.watch.groups.group_ends(owner, name)
        ended = self.engine.groups.end_group(owner, name)
        assert set(ended) == expected, f"I21: of group {name} {ended} were ended, and not {expected}"
        for request_id in ended:
            if (story := self.stories.get(request_id)) is not None and story.group_ended_at is None:
                story.group_ended_at = trio.current_time()
        return ended

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Self]:
        """Look at the engine, and let the plan's faults happen to it; at the end, all must have been given back."""
        with self.engine.observed_by(*self.watch.look_at(self.engine.manager)):
            async with open_chaos(self.engine, self.watch.chaos, jump=self.watch.device.jump):
                yield self
            await self.engine.wait_all_ended()
            self.check_idle()

    # --- what must hold -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """The invariants that hold at any time."""
        self.engine.check_integrity()
        self.watch.check()
        for story in self.stories.values():
            self.check_exact(story)

    def check_exact(self, story: Story) -> None:
        """I4 and I15: whatever was generated, and what the prompt gave, is what the request would have got alone."""
        check_exact(story, self.model)
        check_prompt_outputs(story, self.model)

    def check_idle(self) -> None:
        """Nothing is held, nobody waits, and each generation that was cancelled has its receipt (I6, I7)."""
        self.check()
        assert all(slot.request_id is None for slot in self.engine.slots()), f"I6: {[*self.engine.slots()]}"
        assert not self.watch.books.waiting, "I6: somebody is left in the queue"
        assert not self.watch.books.holding, "I6: somebody is left who holds a slot"
        assert not self.manager.unread, "I6: mail is left unread"
        assert self.engine.requests() == [], "I7: a request is left"
        for story in self.stories.values():
            for index in range(len(story.asked.prompts)):
                check_account(story, index, self.watch, sums=self._sums_are_plain())

    def _sums_are_plain(self) -> bool:
        """Return whether each row that a step computed belongs to the reading of the prompt that counts."""
        return True


def serve_stand_in(
    context: int,
    end_ids: tuple[int, ...],
    faults: Faults,
    chat: Chat | None = None,
    *,
    rings: Rings | None = None,
    state_buffers: int = 0,
    positions: int | None = None,
) -> FaultyServed:
    """Return what is served of the stand-in model."""
    return FaultyServed(
        context,
        VOCABULARY,
        Tokenizer(byte_level()),
        eos_token_ids=end_ids,
        chat=chat,
        rings=rings,
        state_buffers=state_buffers,
        positions=positions,
        faults=faults,
    )


def windowed(window: int, slack: int) -> Rings:
    """The rings of a stand-in model of two layers, of which the second has a window."""
    return Rings((None, window), slack)


def open_drafter(model: SimulatedModel, speculate: Proposer, accuracy: float) -> SimulatedDrafter | None:
    """The drafter that a proposer takes, if any."""
    if speculate in (Proposer.DRAFT, Proposer.MTP):
        return SimulatedDrafter(model, accuracy=accuracy, from_states=speculate is Proposer.MTP)
    return SimulatedAssistant(model, accuracy=accuracy) if speculate is Proposer.ASSISTANT else None


@asynccontextmanager
async def open_simulation(
    *,
    slots: int = 2,
    context: int = 256,
    layers: int = 3,
    step_seconds: Callable[[int], float] = lambda rows: 0.004 + 0.001 * rows,
    end_ids: tuple[int, ...] = (),
    speculate: Proposer = Proposer.OFF,
    accuracy: float = 0.8,
    vocabulary: int = VOCABULARY,
    rings: Rings | None = None,
    chaos: Chaos | None = None,
    chat: Chat | None = None,
    compiler: Compiler | None = None,
    **config: Any,  # noqa: ANN401  EngineConfig's
) -> AsyncIterator[Simulation]:
    """An engine over the stand-in model; at the end, everything must have been given back.

    Args:
        slots: of the device.
        context: tokens that a slot has room for.
        layers: of the model.
        step_seconds: how long a step takes, from its rows.
        end_ids: the model's end-of-sequence tokens.
        speculate: who drafts.
        accuracy: share of the drafter's guesses that are right.
        vocabulary: of which the model draws tokens; a small one repeats itself, so that there is something to look up.
        rings: of a model with a windowed layer, as `windowed` makes them.
        chaos: faults by step and layer, shutdowns and the like.
        chat: how the model converses; None for a base model.
        compiler: of grammars; None for one that reads nothing but the rules of `tests.sim.grammars`.
        config: for `EngineConfig`; prompts are read 8 rows at a time, and no step follows another on the device, unless
            it says otherwise.
    """
    faults = Faults()
    model = FaultyModel(faults, slots=slots, context=context, num_layers=layers, vocabulary=vocabulary, rings=rings)
    drafter = open_drafter(model, speculate, accuracy)
    watch = Watch(model, lambda rows: step_seconds(rows) / layers, chaos, drafter=drafter)
    served = serve_stand_in(context, end_ids, faults, chat, rings=rings)
    grammars = StandInGrammars(faults) if compiler is None else InlineGrammars(compiler)
    settings = EngineConfig(
        **{"slots": slots, "chunk_tokens": 8, "speculate": speculate, "burst_seconds": None, **config}
    )
    async with open_engine(watch.device, served, settings, grammars=grammars) as engine:
        simulation = Simulation(engine, model, watch, faults)
        async with simulation.watched():
            yield simulation


async def storm(sim: Simulation, clients: int = 24) -> None:
    """Have clients ask at once: `r0` and so on, of whom each leaves in one of several ways, or stays."""
    async with trio.open_nursery() as nursery:
        for number in range(clients):
            asked = ask(f"r{number}", prompt(10 + 7 * number, start=number), max_tokens=20)
            nursery.start_soon(_impatient, sim, asked, number)


async def _impatient(sim: Simulation, asked: GenerationRequest, number: int) -> None:
    match number % 4:
        case 0:
            await sim.client(asked, hang_up_after=number // 4)
        case 1:
            await sim.client(asked, hang_up_at=0.2 * number)
        case 2:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sim.client, asked)
                await trio.sleep(0.1 * number)
                sim.engine.cancel(asked.id, CancelReason.OPERATOR)
        case _:
            await sim.client(asked)
