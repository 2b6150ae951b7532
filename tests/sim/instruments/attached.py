"""All of a server's instruments on one engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from actors.engine import Engine
from tests.sim.instruments.counters import Counted
from tests.sim.instruments.feed import WatchedFeed
from tests.sim.instruments.happened import Happened
from tests.sim.instruments.recording import Recorded
from tests.sim.instruments.salvaged_tokens import ServedAgain
from tests.sim.instruments.spans import Traced


@asynccontextmanager
async def instruments_on(engine: Engine) -> AsyncIterator[None]:
    """Look at an engine through all of them; when the scope ends all requests have to be over, and I16 to I20 hold."""
    happened, served = Happened(), ServedAgain(engine.manager.table)
    feed, traced, recorded, counted = WatchedFeed(engine), Traced(), Recorded(), Counted()
    with ExitStack() as attached:
        attached.enter_context(engine.observed_by(happened, served))
        attached.enter_context(feed.attached())
        for instrument in (traced, recorded, counted):
            attached.enter_context(instrument.watching(engine))
        yield
        await engine.wait_all_ended()
        observers = (happened, served, feed.feed, feed.watcher, traced.tracer, recorded.recorder, counted.recorder)
        deaf = [observer for observer in observers if observer not in engine.manager.observers]
        assert not deaf, f"{deaf} raised, and the log says what"
        _check_departures(happened)
        await feed.check(happened)
    traced.check_against(happened)
    recorded.check(happened)
    counted.check(happened)
    served.check(engine.statistics().manager.cache.served_again)


def _check_departures(happened: Happened) -> None:
    """I7, as observers see it: each request that came is gone, once, and so is each generation."""
    came, gone = Counter(map(id, happened.came)), Counter(map(id, happened.gone))
    assert came == gone, "I7: requests have departed that did not come, or not once"
    assert set(came.values()) <= {1}, "I7: a request came twice"
    waited, over = Counter(happened.waited), Counter(happened.over)
    assert waited == over, f"I7: {waited - over} never ended, or {over - waited} twice"
