"""A whole engine in virtual time: clients that misbehave, faults to order, and a scheduler fixed by one integer.

    @simulated()
    async def test_a_hang_up_frees_the_slot() -> None:
        async with open_simulation(slots=1) as sim:
            victim = await sim.client(ask("a", prompt(40)), hang_up_after=3)
            assert victim.receipt.kept_tokens == 42

The model is `runtime.simulated`'s: each token is a function of the exact tokens before it, so `continuation` says what
any request must get.  `open_simulation` checks the invariants that hold at every step (see `Watch`) and, at its end,
that nothing is left behind.  Nothing here sleeps for real.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import outcome
import trio
from trio._core import _run as trio_scheduler
from trio.testing import MockClock

from actors.engine import EngineConfig, open_engine
from actors.generation import Event, Failed, Finished, FinishReason, GenerationRequest, Token
from runtime.errors import CedeError, DeviceLost
from runtime.executor import SimulatedExecutor
from runtime.sampling import SamplingParams
from runtime.served import ServedModel
from runtime.simulated import SimulatedBatch, SimulatedModel, chain
from runtime.step import Output, SampledToken
from runtime.text_stream import TextStream
from runtime.tokenizer import Tokenizer
from tests.small_tokenizers import byte_level

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from actors.engine import Engine
    from actors.lease import Lease
    from actors.receipts import Receipt
    from actors.slot_manager import SlotManager
    from runtime.step import Segment, StepResult

T = TypeVar("T")

GREEDY = SamplingParams(temperature=0.0, seed=0)
VOCABULARY = 389
CULPRIT = 389  # a token that the model never generates: for faults that only a prompt can meet
ROUNDING = 2e-6  # of seconds since the epoch as floats
FOREVER = 1e7  # virtual seconds: whatever is still waiting then waits for nothing


# --- one integer fixes the schedule -----------------------------------------------------------------------------------


@contextmanager
def seeded_scheduler(seed: int) -> Iterator[None]:
    """Within, Trio runs the tasks that are ready in an order that depends on `seed` alone.

    These two names are what Trio itself offers Hypothesis for the purpose; there is no public way.
    """
    state, allowed = trio_scheduler._r.getstate(), trio_scheduler._ALLOW_DETERMINISTIC_SCHEDULING
    trio_scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio_scheduler._r.seed(seed)
    try:
        yield
    finally:
        trio_scheduler._r.setstate(state)
        trio_scheduler._ALLOW_DETERMINISTIC_SCHEDULING = allowed  # type: ignore[misc]


class Hung(Exception):
    """Every task waits, and nothing will ever wake one."""


def run(main: Callable[[], Awaitable[T]], *, seed: int = 0, instruments: Sequence[trio.abc.Instrument] = ()) -> T:
    """Run `main` in virtual time under the scheduler of `seed`.

    Raises:
        Hung: it would have waited for ever.
    """

    async def watched() -> T:
        trio.lowlevel.spawn_system_task(_end_those_who_wait_for_ever, trio.lowlevel.current_task())
        return await main()

    with seeded_scheduler(seed):
        return trio.run(watched, clock=MockClock(autojump_threshold=0), instruments=instruments)


async def _end_those_who_wait_for_ever(main: trio.lowlevel.Task) -> None:
    """Virtual time gets this far only when nothing else can happen.  A cancel would not do: some waits are shielded."""
    while True:
        await trio.sleep(FOREVER)
        for task in _family(main):
            if task._abort_func is not None:
                trio.lowlevel.reschedule(task, outcome.Error(Hung(f"{task.name} would wait for ever")))


def _family(task: trio.lowlevel.Task) -> list[trio.lowlevel.Task]:
    children = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return [task, *(member for child in children for member in _family(child))]


def simulated(seeds: int = 2) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Make an async test run in virtual time, once under each of `seeds` schedulers."""

    def decorate(scenario: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        @functools.wraps(scenario)
        def test(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401  whatever fixtures the scenario takes
            for seed in range(seeds):
                try:
                    run(functools.partial(scenario, *args, **kwargs), seed=seed)
                except BaseException as error:
                    error.add_note(f"under scheduler seed {seed}")
                    raise

        return test

    return decorate


class AtStep(trio.abc.Instrument):
    """Calls `act` just before the n-th step of a task, and counts the steps.

    A step of a task is what it does between two of its checkpoints, so over all n this is every moment at which
    anything outside a task can happen to it.

    Args:
        n: counted from 0; None only counts.
        act: must not raise.
        counts: which steps count; None for all.
    """

    def __init__(
        self, n: int | None, act: Callable[[], object], counts: Callable[[trio.lowlevel.Task], bool] | None = None
    ) -> None:
        self.steps = 0
        self._n = n
        self._act = act
        self._counts = counts

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._counts is None or self._counts(task):
            if self.steps == self._n:
                self._act()
            self.steps += 1


# --- faults -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Faults:
    """What is to go wrong.  May be changed at any time."""

    raise_on: set[int] = field(default_factory=set)  # a step with any of these tokens raises
    not_finite_on: set[int] = field(default_factory=set)  # a segment with any of these yields NaN
    text_raises_on: set[int] = field(default_factory=set)  # a bug in the actor that turns this token into text
    flush_raises: bool = False
    lost: str | None = None  # the device is gone, and this is why


class FaultyModel(SimulatedModel):
    """The stand-in model, with faults; and it keeps a request's end tokens back as long as `min_tokens` asks."""

    def __init__(self, faults: Faults, *, slots: int, context: int, num_layers: int) -> None:
        super().__init__(slots=slots, context=context, num_layers=num_layers, vocab_size=VOCABULARY)
        self.faults = faults

    def begin(self, segments: Sequence[Segment]) -> SimulatedBatch:
        batch = super().begin(segments)
        if self.faults.lost is not None:
            raise DeviceLost(self.faults.lost)
        if any(self.faults.raise_on.intersection(segment.token_ids) for segment in segments):
            raise RuntimeError("the device ran into a planted fault")
        return batch

    def finish(self, batch: SimulatedBatch) -> list[Output]:
        return [
            Output(finite=False)
            if self.faults.not_finite_on.intersection(segment.token_ids)
            else Output(finite=True, tokens=tuple(_without_early_end(segment, token) for token in output.tokens))
            for segment, output in zip(batch.segments, super().finish(batch), strict=True)
        ]


def _without_early_end(segment: Segment, token: SampledToken) -> SampledToken:
    spec = segment.sample
    if spec is None or token.token_id not in spec.end_ids:
        return token
    return SampledToken((token.token_id + 1) % VOCABULARY) if spec.generated < spec.params.min_tokens else token


class FaultyText(TextStream):
    """A text stream that raises where it is told to."""

    def __init__(self, faults: Faults, tokenizer: Tokenizer, stop: Sequence[str], *, continues: bool) -> None:
        super().__init__(tokenizer, stop, continues=continues)
        self._faults = faults

    def push(self, token_id: int) -> Any:  # noqa: ANN401  TextDelta, or no return at all
        if token_id in self._faults.text_raises_on:
            raise ZeroDivisionError("a planted bug")
        return super().push(token_id)

    def flush(self) -> str:
        if self._faults.flush_raises:
            raise ZeroDivisionError("a planted bug")
        return super().flush()


@dataclass(frozen=True, slots=True)
class FaultyServed(ServedModel):
    """What is served, with faults in its text streams."""

    faults: Faults = field(default_factory=Faults)

    def text(self, stop: Sequence[str], *, continues: bool = False) -> TextStream:
        return FaultyText(self.faults, self.tokenizer, stop, continues=continues)


# --- what the device was given ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """One segment of one step, and what became of it.  `computed` and `touched` as in `SegmentResult`."""

    owner: tuple[str, int]
    slot: int
    start: int
    rows: int
    computed: bool = False
    touched: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One step that ran to its end, or, with `failed`, raised."""

    started_at: float
    finished_at: float
    runs: tuple[Run, ...]
    failed: bool = False

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.runs)


class Watch:
    """An executor that looks at every step before and after it runs, and keeps a record.

    Before: the mailbox is empty, no segment is cancelled, each names the slot that its own request leases and goes on
    exactly where the committed tokens end, and nobody who was cancelled is met more than once; nor is one ever granted
    a slot.  After: the slots named still belong to the same leases.  Always: each slot's KV is that of the tokens which
    the table says are in it.
    """

    def __init__(self, model: SimulatedModel, layer_seconds: Callable[[int], float]) -> None:
        self.steps: list[Step] = []
        self.violations: list[str] = []
        self.manager: SlotManager
        self._model = model
        self.longest_layer = 0.0  # seconds
        self.after_step: Callable[[], object] = lambda: None  # called before the manager hears of the step's end
        self._inner = SimulatedExecutor(model, layer_seconds)
        self._layer_seconds = layer_seconds
        self._met_cancelled: Counter[tuple[str, int]] = Counter()
        self._running = False

    def attach(self, manager: SlotManager) -> None:
        """Look at the grants of `manager` as well."""
        self.manager = manager
        grant = manager.table.grant

        def watched(owner: tuple[str, int], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as `grant` does
            granted = grant(owner, *args, **kwargs)
            alive = any(lease.owner == owner and lease.mark.at is None for lease in manager._queue)
            self._expect(granted is None or alive, f"{owner}: granted a slot, though not waiting for one")
            return granted

        manager.table.grant = watched  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Whatever else an executor can do."""
        return getattr(self._inner, name)

    def clock(self) -> float:
        return self._inner.clock()

    async def run_step(self, segments: Sequence[Segment]) -> StepResult:
        runs = [self._before(segment) for segment in segments]
        self._look_around(len(segments))
        self.longest_layer = max(self.longest_layer, self._layer_seconds(sum(run.rows for run in runs)))
        started_at, self._running = self.clock(), True
        try:
            result = await self._inner.run_step(segments)
            self.after_step()
        except Exception:
            self.steps.append(Step(started_at, self.clock(), tuple(runs), failed=True))
            raise
        finally:
            self._running = False
            for segment, run in zip(segments, runs, strict=True):
                self._after(segment, run)
        ended = [
            Run(run.owner, run.slot, run.start, run.rows, entry.computed, entry.last_kernel_at is not None)
            for run, entry in zip(runs, result.segments, strict=True)
        ]
        self.steps.append(Step(started_at, self.clock(), tuple(ended)))
        return result

    def check_kv(self) -> None:
        """The tokens in the table are those whose KV is in the slots (seed 5)."""
        for slot in self.manager.table._slots:
            state = 0x5EED
            for position, token_id in enumerate(slot.tokens):
                state = chain(state, token_id)
                self._expect(
                    self._model.kv[slot.id][position] == state, f"slot {slot.id}: KV {position} is not its token's"
                )

    def _lease_of(self, segment: Segment) -> Lease | None:
        return next((lease for lease in self.manager._leases.values() if lease.mark is segment.mark), None)

    def _before(self, segment: Segment) -> Run:
        lease = self._lease_of(segment)
        owner = lease.owner if lease is not None else ("nobody", -1)
        self._expect(segment.mark.at is None, f"{owner}: a step begins with a cancelled segment")
        self._expect(len(segment.token_ids) > 0, f"{owner}: a step begins with no rows")
        self._expect(self._leases(segment), f"{owner}: a step names slot {segment.slot}, which it does not lease")
        if lease is not None and lease.slot is not None:
            self._expect(len(lease.slot.tokens) == segment.start, f"{owner}: starts at {segment.start}, not at the end")
        return Run(owner, segment.slot, segment.start, len(segment.token_ids))

    def _look_around(self, segments: int) -> None:
        self._expect(not self._running, "two steps at a time")
        self._expect(segments > 0, "a step of nothing")
        self._expect(not self.manager._mailbox, "a step begins with mail unread")
        self.check_kv()
        for lease in self.manager._leases.values():
            if lease.mark.at is not None:
                self._met_cancelled[lease.owner] += 1
                self._expect(
                    self._met_cancelled[lease.owner] == 1, f"{lease.owner}: held through two steps once cancelled"
                )

    def _after(self, segment: Segment, run: Run) -> None:
        self._expect(self._leases(segment), f"{run.owner}: slot {run.slot} changed hands during a step")

    def _leases(self, segment: Segment) -> bool:
        lease = self._lease_of(segment)
        return (
            lease is not None
            and lease.slot is not None
            and lease.slot.id == segment.slot
            and lease.slot.owner == lease.owner
        )

    def _expect(self, holds: bool, otherwise: str) -> None:
        # Kept, not raised: the manager would take it for a fault of the device.
        if not holds:
            self.violations.append(otherwise)


# --- clients ----------------------------------------------------------------------------------------------------------


def ask(request_id: str, *prompts: Sequence[int], max_tokens: int | None = 4, **more: Any) -> GenerationRequest:  # noqa: ANN401
    """A greedy request with one generation for each prompt."""
    sampling = more.pop("sampling", GREEDY)
    return GenerationRequest(request_id, tuple(map(tuple, prompts)), sampling, max_tokens=max_tokens, **more)


def prompt(length: int, *, start: int = 3) -> list[int]:
    """Tokens that no other `start` less than 40 away continues."""
    return [start, *((start * 41 + i * 7) % VOCABULARY for i in range(1, length))]


@dataclass(slots=True)
class Story:
    """What happened to one client's request.

    `events` are those that the client read, `unread` those left in the buffer when it had gone.
    """

    asked: GenerationRequest
    connection: trio.CancelScope = field(default_factory=trio.CancelScope)  # cancelled: the client hangs up
    events: list[Event] = field(default_factory=list)
    times: list[float] = field(default_factory=list)  # when each of them was read
    unread: list[Event] = field(default_factory=list)
    error: CedeError | None = None  # refused at the door
    opened: bool = False
    ended: bool = False
    receipts: list[Receipt] = field(default_factory=list)

    @property
    def hung_up(self) -> bool:
        return self.connection.cancelled_caught

    @property
    def receipt(self) -> Receipt:
        """The only one."""
        (receipt,) = self.receipts
        return receipt

    def tokens(self, index: int = 0, *, all: bool = False) -> list[int]:
        """Ids of the tokens read, or of all that were sent."""
        events = [*self.events, *self.unread] if all else self.events
        return [event.token_id for event in events if isinstance(event, Token) and event.index == index]

    def text(self, index: int = 0) -> str:
        """All text read."""
        return "".join(e.text for e in self.events if isinstance(e, Token | Finished) and e.index == index)

    def last(self, index: int = 0) -> Finished | Failed | None:
        """How a generation ended, if that was ever said, and that nothing came after it."""
        events = [event for event in [*self.events, *self.unread] if event.index == index]
        ends = [event for event in events if isinstance(event, Finished | Failed)]
        assert ends == events[-1:] or not ends, f"{self.asked.id}/{index}: more than one end, or not at the end"
        return ends[0] if ends else None

    def finished(self, index: int = 0) -> Finished:
        """As `last`, for one that did not fail."""
        last = self.last(index)
        assert isinstance(last, Finished), last
        return last

    def failed(self, index: int = 0) -> CedeError:
        """The error of one that failed."""
        last = self.last(index)
        assert isinstance(last, Failed), last
        return last.error


class Simulation:
    """An engine under watch, and everything that its clients saw.  Made by `open_simulation`."""

    def __init__(self, engine: Engine, model: FaultyModel, watch: Watch, faults: Faults) -> None:
        self.engine = engine
        self.model = model
        self.watch = watch
        self.faults = faults
        self.stories: dict[str, Story] = {}

    @property
    def steps(self) -> list[Step]:
        return self.watch.steps

    @property
    def manager(self) -> SlotManager:
        return self.engine._manager

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
            arrives: virtual time of the call; now if that has passed.
            hang_up_after: this many events read (0: as soon as the request is open).
            hang_up_at: virtual time.
            pause: seconds between two reads.
            reads: False to leave everything in the buffer and only hold the connection.
        """
        story = self.expect(asked)
        await trio.sleep(max(0.0, arrives - trio.current_time()))
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
            story.unread = [] if request is None else request.events_nowait()
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
                story.connection.cancel()
            try:
                event = await anext(events)
            except StopAsyncIteration:
                return
            story.events.append(event)
            story.times.append(trio.current_time())
            await trio.sleep(pause)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """The invariants that hold at any time."""
        self.engine.check_integrity()
        self.watch.check_kv()
        assert not self.watch.violations, self.watch.violations
        for story in self.stories.values():
            self.check_exact(story)

    def check_exact(self, story: Story) -> None:
        """Whatever was generated is what the request would have got alone (C1)."""
        if story.asked.sampling.min_tokens:
            return
        for index, tokens in enumerate(story.asked.prompts):
            got = story.tokens(index, all=True)
            assert got == self.model.continuation(tokens, len(got)), f"{story.asked.id}/{index} is not exact"

    def check_idle(self) -> None:
        """Nothing is held, nobody waits, and each generation that was cancelled has its receipt (C5)."""
        self.check()
        assert all(slot.request_id is None for slot in self.engine.slots()), self.engine.slots()
        assert not self.manager._queue
        assert not self.manager._leases
        assert not self.manager._mailbox
        assert self.engine.requests() == []
        for story in self.stories.values():
            for index in range(len(story.asked.prompts)):
                self._check_account(story, index)

    def _check_account(self, story: Story, index: int) -> None:
        receipts = [receipt for receipt in story.receipts if receipt.index == index]
        last = story.last(index)
        if not story.opened or (isinstance(last, Finished) and last.reason is not FinishReason.CANCELLED):
            assert not receipts, f"{story.asked.id}/{index} was not cancelled, but has {receipts}"
            return
        if isinstance(last, Failed) and type(last.error) is CedeError and not receipts:
            return  # a bug met after the slot was free
        (receipt,) = receipts
        assert receipt.layers_after_cancel <= 1, receipt
        self._check_sums(receipt)
        if receipt.slot_freed_at is None:
            assert receipt.phase == "queued"
            assert receipt.last_kernel_at is None
            return
        assert receipt.phase != "queued"
        layer = self.watch.longest_layer
        longest_step = layer * self.model.num_layers
        assert -ROUNDING <= receipt.slot_freed_at - receipt.detected_at <= longest_step + ROUNDING, receipt
        if receipt.last_kernel_at is not None:
            assert receipt.last_kernel_at <= receipt.detected_at + layer + ROUNDING, receipt
            assert receipt.last_kernel_at <= receipt.slot_freed_at + ROUNDING, receipt

    def _check_sums(self, receipt: Receipt) -> None:
        """The receipt's figures against those of the steps that ran."""
        owner = (receipt.request_id, receipt.index)
        runs = [run for step in self.steps for run in step.runs if run.owner == owner]
        assert receipt.computed_tokens == sum(run.rows for run in runs if run.touched), (receipt, runs)
        # What failed on cached KV is read again from the start, and what it had computed before is not kept.
        restart = max((i for i, run in enumerate(runs) if run.start == 0), default=0)
        kept = sum(run.rows for run in runs[restart:] if run.computed)
        assert receipt.kept_tokens in (0, kept), (receipt, runs)
        assert receipt.wasted_tokens == receipt.computed_tokens - receipt.kept_tokens, receipt


@asynccontextmanager
async def open_simulation(
    *,
    slots: int = 2,
    context: int = 256,
    layers: int = 3,
    step_seconds: Callable[[int], float] = lambda rows: 0.004 + 0.001 * rows,
    end_ids: tuple[int, ...] = (),
    **config: Any,  # noqa: ANN401  EngineConfig's
) -> AsyncIterator[Simulation]:
    """An engine over the stand-in model; at the end, everything must have been given back.

    Args:
        step_seconds: how long a step takes, from its rows.
        end_ids: the model's end-of-sequence tokens.
        config: for `EngineConfig`; prompts are read 8 rows at a time unless it says otherwise.
    """
    faults = Faults()
    model = FaultyModel(faults, slots=slots, context=context, num_layers=layers)
    watch = Watch(model, lambda rows: step_seconds(rows) / layers)
    served = FaultyServed("stand-in", 0, context, VOCABULARY, end_ids, Tokenizer(byte_level()), faults=faults)
    settings = EngineConfig(**{"slots": slots, "chunk_tokens": 8, **config})
    async with open_engine(watch, served, settings) as engine:
        watch.attach(engine._manager)
        simulation = Simulation(engine, model, watch, faults)
        yield simulation
    simulation.check_idle()
