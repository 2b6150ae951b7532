"""Recording of what a viewer of a busy engine is told, byte by byte.

The engine, its feed and the writer of its frames are those that serve; the device is a stand-in, and the time is
Trio's virtual one.  So a minute of a thousand events a second takes few seconds to make, and none of its making is
left to do while a browser is watched.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trio
from trio.testing import MockClock

from actors.config import EngineConfig
from actors.core.generation import GenerationRequest
from actors.engine import open_engine
from runtime.loading.served import Proposer
from runtime.sampling.params import SamplingParams
from runtime.step.executor import SimulatedExecutor
from runtime.testing.simulated import SimulatedDrafter, SimulatedModel, stand_in
from web.observability.inspection.feed.feed import Feed
from web.observability.inspection.feed.frames import FeedStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.engine import Engine

Json = dict[str, Any]

CONTEXT = 4096
LAYERS = 4
LAYER_SECONDS = 0.0013  # with these, four slots and drafts: a thousand events a second
ROW_SECONDS = 0.00001
ACCURACY = 0.7  # of the drafter
PROMPTS = (40, 300, 1500)  # tokens
PATIENCES = (10, 60, 250, 1000)  # tokens after which a client leaves, if there are as many
ANSWER = 400  # tokens
CLIENTS_PER_SLOT = 1.5  # so that somebody waits
WRITE_BYTES = 1 << 20  # of one piece: a frame is one


@dataclass(frozen=True, slots=True)
class WireFrame:
    """A server-sent event of the feed.

    Attributes:
        at: seconds since the recording began.
        wire: as it is sent.
    """

    at: float
    wire: bytes

    @property
    def data(self) -> Json:
        """Data that it carries."""
        value: Json = json.loads(self.wire.partition(b"\ndata: ")[2])
        return value


Recording = tuple[WireFrame, ...]
"""What one viewer is told, from the snapshot on."""


def events_of(recording: Recording) -> list[Json]:
    """Return all events, in order."""
    return [event for frame in recording for event in frame.data["events"]]


def record(lengths: Sequence[float], *, slots: int = 4, pause: float = 0.0, seed: int = 1) -> list[Recording]:
    """Record viewers of one engine that come one after the other.

    Args:
        lengths: seconds for which each of them watches.
        slots: of the engine.
        pause: seconds for which each of them reads nothing, after its first frame.
        seed: of what clients ask, and how long they stay.
    """
    return trio.run(_record, lengths, slots, pause, seed, clock=MockClock(autojump_threshold=0))


async def _record(lengths: Sequence[float], slots: int, pause: float, seed: int) -> list[Recording]:
    model = SimulatedModel(slots=slots, context=CONTEXT, num_layers=LAYERS)
    executor = SimulatedExecutor(
        model, lambda rows: LAYER_SECONDS + ROW_SECONDS * rows, SimulatedDrafter(model, accuracy=ACCURACY)
    )
    config = EngineConfig(slots=slots, speculate=Proposer.DRAFT, chunk_tokens=128)
    async with open_engine(executor, stand_in(model), config) as engine, trio.open_nursery() as clients:
        for number in range(math.ceil(CLIENTS_PER_SLOT * slots)):
            clients.start_soon(_ask_on, engine, number, random.Random(seed * 1000 + number))
        await trio.sleep(1.0)
        recordings = [await _watch(engine, seconds, pause) for seconds in lengths]
        clients.cancel_scope.cancel()
    return recordings


async def _watch(engine: Engine, seconds: float, pause: float) -> Recording:
    """Watch as a connection does that takes whatever is there."""
    feed, frames, began = Feed(engine), list[WireFrame](), trio.current_time()
    with feed.watched() as viewer, engine.unread.backlog("a viewer", gathering=True) as backlog:
        stream = FeedStream(
            feed, viewer, None, keep_alive=math.inf, backlog=backlog, write_bytes=WRITE_BYTES, follow=True
        )
        while trio.current_time() < began + seconds:
            wire = await anext(stream)
            frames.append(WireFrame(trio.current_time() - began, wire))
            if len(frames) == 1:
                await trio.sleep(pause)
    return tuple(frames)


async def _ask_on(engine: Engine, number: int, dice: random.Random) -> None:
    """Ask again and again, and often leave before the end."""
    asked = 0
    while True:
        prompt = tuple(dice.randrange(1000) for _ in range(dice.choice(PROMPTS)))
        sampling = SamplingParams(temperature=0)
        request = GenerationRequest(f"client{number}-{asked}", (prompt,), sampling, max_tokens=ANSWER)
        asked += 1
        left = dice.choice(PATIENCES)
        async with engine.open_request(request) as answer:
            async for _ in answer:
                left -= 1
                if not left:
                    break
        await trio.sleep(dice.random() / 20)
