"""Size of an answer that is kept for clients who come back: what the bound on it counts, and no more."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from tests.fakes.engine import FakeEngine, posting, say
from tests.unit.web.storage.detached.clients import FORMATS, detaching

ANSWERS = 60
STREAM = {"stream": True}
WHOLE = {"stream": False, "stream_options": None}


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def taken() -> int:
    """Bytes of all objects that were made since tracing began."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    ("path", "how"),
    [
        ("/v1/completions", STREAM),
        ("/v1/responses", STREAM),
        ("/api/chat", STREAM),
        ("/v1/chat/completions", WHOLE),
        ("/api/chat", {"stream": False}),
    ],
)
async def test_an_answer_that_is_kept_counts_what_it_takes(path: str, how: dict[str, object]) -> None:
    body = FORMATS[path] | how | {"cede": {"on_disconnect": "detach", "group": "g" * 256}}
    engine = FakeEngine(say(*[f"word{number} " for number in range(10)]))
    async with detaching(engine, background_events=2**30) as (app, state):
        for _ in range(ANSWERS):
            async with posting(app, path, body, headers={"x-note": "n" * 4000}) as exchange:
                await exchange.receive_all()
            await engine.next_request()  # the stand-in would remember it
        await trio.testing.wait_all_tasks_blocked()
        statistics, before = state.runs.statistics(), taken()
        assert statistics.kept == ANSWERS
        for run in list(state.runs):
            await state.runs.forget(run)
        freed = before - taken()
        assert freed <= statistics.kept_bytes <= 2 * freed
