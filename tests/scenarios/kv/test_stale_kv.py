"""Seed 5: a cache entry that describes one stream of tokens while what it names holds another.

The sequence of the report, and then any sequence that hypothesis thinks of.  The stand-in model's KV is a function of
its tokens, so a single stale row changes every token after it.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.fakes.kv_simulation import KVSimulation, Truth, fresh, open_kv_simulation, open_settled_disk, text
from tests.fakes.simulation import Story, ask, run, simulated

# --- the report's sequence --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("ram", [0, 6, 1000])
@pytest.mark.parametrize("where_it_aborts", [0.001, 0.02, 0.045])
@simulated()
async def test_the_sequence_of_the_report(slots: int, ram: int, where_it_aborts: float, tmp_path: Path) -> None:
    with ExitStack() as stack:
        disk = stack.enter_context(open_settled_disk(fresh(tmp_path), blocks=20)) if ram < 1000 else None
        async with open_kv_simulation(slots=slots, ram=ram, disk=disk) as sim:
            short = await sim.client(ask("short conversation", text(380, 1), max_tokens=8))
            conversation = sim.whole(short)
            start = trio.current_time()
            await sim.client(ask("aborted", text(200, 2)), hang_up_at=start + where_it_aborts)
            await sim.client(ask("big and distinct", text(820, 3), max_tokens=8))
            shortened = await sim.client(ask("shortened", conversation[:250], max_tokens=20))
            lengthened = await sim.client(ask("lengthened", conversation + text(150, 4), max_tokens=20))
            for story in (short, shortened, lengthened):
                assert story.tokens() == sim.model.continuation(story.asked.prompts[0], len(story.tokens()))
            assert shortened.finished().cached_tokens >= 192
            assert lengthened.finished().cached_tokens >= 192
            if disk is not None:
                sim.check_disk()


@simulated()
async def test_a_slot_that_was_reused_in_every_way() -> None:
    """One slot, and prompts that end within, at and after the places where others ended."""
    async with open_kv_simulation(slots=1, ram=12) as sim:
        one, other = text(400, 1), text(400, 2)
        for n, (tokens, length) in enumerate(
            [(one, 400), (other, 63), (one, 64), (other, 65), (one, 129), (other, 400)]
        ):
            await sim.client(ask(f"a{n}", tokens[:length], max_tokens=3))
            await sim.client(ask(f"b{n}", tokens[: length // 2] + text(100, 10 + n), max_tokens=3))
            sim.check()


# --- any sequence -----------------------------------------------------------------------------------------------------


CONTEXT = 600


@dataclass(frozen=True, slots=True)
class Tiers:
    """Tiers of a server."""

    slots: int
    ram: int  # blocks
    disk: int | None  # blocks; None for no such tier
    new_folder: bool  # or the one of the server before


@dataclass(frozen=True, slots=True)
class Talk:
    """A request: a conversation from before, cut and lengthened."""

    which: int
    cut: int
    adds: int
    output: int
    patience: float | None  # seconds until the client hangs up
    waits: bool  # for the answer, before the next thing happens
    cache_prompt: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """Nobody asks for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Evict:
    """Some blocks of the tiers, and what is resident in idle slots."""

    slots: bool
    ram: range
    disk: range


@dataclass(frozen=True, slots=True)
class Break:
    """From now on the device fails so; "" for not at all."""

    what: str


class Play:
    """Plays a script of the above, and compares every answer with what it must be."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._truth = Truth()
        self._conversations = [text(150, 1), text(150, 1) + text(200, 2), text(64, 3), text(128, 4)]
        self._count = 0

    def run(self, tiers: Tiers, script: Sequence[Talk | Pause | Evict | Break | Tiers]) -> None:
        """Each server in turn."""
        lives: list[tuple[Tiers, list[Talk | Pause | Evict | Break]]] = [(tiers, [])]
        for scene in script:
            if isinstance(scene, Tiers):
                lives.append((scene, []))
            else:
                lives[-1][1].append(scene)
        for seed, (tiers, scenes) in enumerate(lives):
            run(partial(self._live, tiers, scenes), seed=seed)

    async def _live(self, tiers: Tiers, scenes: Sequence[Talk | Pause | Evict | Break]) -> None:
        with ExitStack() as stack:
            disk = None
            if tiers.disk is not None:
                if tiers.new_folder:
                    self._folder = self._folder.with_name(self._folder.name + "+")
                disk = stack.enter_context(open_settled_disk(self._folder, blocks=tiers.disk))
            async with (
                open_kv_simulation(
                    slots=tiers.slots, ram=tiers.ram, disk=disk, truth=self._truth, context=CONTEXT, hold_seconds=0.5
                ) as sim,
                trio.open_nursery() as clients,
            ):
                for scene in scenes:
                    await self._play(scene, sim, clients)
                    sim.check()
            if disk is not None:
                sim.check_disk()

    async def _play(self, scene: Talk | Pause | Evict | Break, sim: KVSimulation, clients: trio.Nursery) -> None:
        match scene:
            case Talk():
                await self._talk(scene, sim, clients)
            case Pause(seconds):
                await trio.sleep(seconds)
            case Evict(slots, ram, disk):
                sim.evict(slots=slots)
                sim.evict(slots=False, ram=True, blocks=ram)
                if sim.cache.tiers.disk is not None:
                    sim.evict(slots=False, disk=True, blocks=disk)
            case Break(what):
                sim.faults.cursed = what == "raises"
                sim.faults.cursed_not_finite = what == "not finite"
                sim.faults.fails = lambda transfer: type(transfer).__name__ == what

    async def _talk(self, talk: Talk, sim: KVSimulation, clients: trio.Nursery) -> None:
        self._count += 1
        tokens = self._conversations[talk.which % len(self._conversations)]
        tokens = (tokens[: talk.cut] if talk.cut else tokens) + text(talk.adds, 100 + self._count)
        tokens = tokens[-(CONTEXT - 50) :] if len(tokens) > CONTEXT - 50 else tokens
        story = sim.expect(ask(f"{self._count}", tokens, max_tokens=talk.output, cache_prompt=talk.cache_prompt))
        if talk.waits:
            await self._client(story, talk, sim)
        else:
            clients.start_soon(self._client, story, talk, sim)
            await trio.lowlevel.checkpoint()

    async def _client(self, story: Story, talk: Talk, sim: KVSimulation) -> None:
        await sim.client(story.asked, hang_up_at=trio.current_time() + (talk.patience or math.inf))
        if story.error is not None:
            return  # the queue was full
        if not story.hung_up:
            assert len(story.tokens()) == talk.output, story.last()
            assert not story.receipts
        self._conversations.append(sim.whole(story))


class AnySequence(RuleBasedStateMachine):
    """The rules write down what is to happen; it is played at the end, in virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self.tiers: Tiers | None = None
        self.script: list[Talk | Pause | Evict | Break | Tiers] = []

    @initialize(
        slots=st.integers(1, 3), ram=st.sampled_from([0, 2, 6, 12, 100]), disk=st.sampled_from([None, 2, 8, 100])
    )
    def start(self, slots: int, ram: int, disk: int | None) -> None:
        """Start a server."""
        self.tiers = Tiers(slots, ram, disk, new_folder=True)

    @rule(
        which=st.integers(0, 30),
        cut=st.one_of(st.just(0), st.sampled_from([1, 63, 64, 65, 128, 200]), st.integers(1, 400)),
        adds=st.one_of(st.integers(1, 20), st.sampled_from([64, 128]), st.integers(20, 250)),
        output=st.integers(1, 12),
        patience=st.one_of(st.none(), st.integers(0, 150).map(lambda ms: ms / 1000 + 1e-6)),
        waits=st.booleans(),
        cache_prompt=st.integers(0, 7).map(bool),
    )
    def talk(self, **how: Any) -> None:  # noqa: ANN401
        """Ask."""
        self.script.append(Talk(**how))

    @rule(milliseconds=st.sampled_from([1, 10, 50, 700]))
    def pause(self, milliseconds: int) -> None:
        """Wait."""
        self.script.append(Pause(milliseconds / 1000))

    @rule(slots=st.booleans(), ram=st.integers(0, 8), disk=st.integers(0, 8), count=st.integers(0, 4))
    def evict(self, slots: bool, ram: int, disk: int, count: int) -> None:
        """Let what is kept go, here and there."""
        self.script.append(Evict(slots, range(ram, ram + count), range(disk, disk + count)))

    @rule(what=st.sampled_from(["", "", "raises", "not finite", "Load", "Save", "Copy"]))
    def fail(self, what: str) -> None:
        """Let something fail from now on."""
        self.script.append(Break(what))

    @rule(
        slots=st.integers(1, 3),
        ram=st.sampled_from([0, 2, 6, 12, 100]),
        disk=st.sampled_from([None, 2, 8, 100]),
        new_folder=st.booleans(),
    )
    def restart(self, slots: int, ram: int, disk: int | None, new_folder: bool) -> None:
        """End the server, and start another one."""
        self.script.append(Tiers(slots, ram, disk, new_folder))

    def teardown(self) -> None:
        """Play what was chosen."""
        if self.tiers is not None:
            with tempfile.TemporaryDirectory() as folder:
                Play(Path(folder) / "kv").run(self.tiers, self.script)


AnySequence.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=20,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
test_any_sequence = AnySequence.TestCase
