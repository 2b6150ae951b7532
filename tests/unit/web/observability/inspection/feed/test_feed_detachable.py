"""Who watches is told who reads the requests that may outlive their clients, and until when answers are kept."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import trio
from trio.testing import MockClock

from tests.fakes.engine import FakeEngine, as_engine, completion, finished, token
from tests.sim.detached.visits import BOUNDS
from tests.unit.web.observability.inspection.feed.viewers import ANN
from web.observability.inspection.feed.feed import Feed, Viewer
from web.observability.inspection.feed.frames import state
from web.storage.detached.makers import StreamMaker
from web.storage.detached.runs import open_runs

DETACHED = {"on_disconnect": "detach", "keep_s": 1}
CHANGES = {"attached", "detached", "kept", "dropped"}


def changes(viewer: Viewer) -> list[dict[str, Any]]:
    """Return what is new of them."""
    told = [value for record in viewer.take(100)[0] if (value := record.shown_to(None)) is not None]
    return [value for value in told if value["type"] in CHANGES]


async def test_what_happens_to_one_is_told_and_counted(autojump_clock: MockClock) -> None:
    engine = FakeEngine([token("a"), finished()])
    async with open_runs(as_engine(engine), BOUNDS) as runs:
        feed, asked = (
            Feed(as_engine(engine), runs),
            completion(stream=True, cede=DETACHED),
        )
        with feed.watched() as viewer, ExitStack() as reader:
            run = await runs.start(asked.request, StreamMaker(asked.formatter(), 1e9), ExitStack(), reader)
            await run.ended.wait()
            with run.reading():
                (shown,) = state(as_engine(engine), runs, None)["detachable"]
                assert (shown.readers, shown.attaches) == (2, 1)
            reader.close()
            (kept, attached, detached) = changes(viewer)
            assert [kept["type"], attached["type"], detached["type"]] == ["kept", "attached", "detached"]
            assert (attached["readers"], detached["readers"]) == (2, 0)
            assert kept["kept_until"] == run.kept_until
            await trio.sleep(2)
            assert [change["type"] for change in changes(viewer)] == ["dropped"]
            assert state(as_engine(engine), runs, None)["detachable"] == []
        assert runs.statistics().attaches == 1
        with run.reading():
            assert not feed.ring.end, "nobody watches"


async def test_a_key_sees_its_own(autojump_clock: MockClock) -> None:
    engine = FakeEngine([token("a"), finished()])
    async with open_runs(as_engine(engine), BOUNDS) as runs:
        asked = completion(stream=True, cede=DETACHED)
        with ExitStack() as reader:
            run = await runs.start(asked.request, StreamMaker(asked.formatter(), 1e9), ExitStack(), reader)
            await run.ended.wait()
            assert state(as_engine(engine), runs, ANN)["detachable"] == []
            assert len(state(as_engine(engine), runs, None)["detachable"]) == 1
