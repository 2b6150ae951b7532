"""The room that bodies of requests share: who is refused, when it is given back, and that nothing keeps a body."""

from __future__ import annotations

import gc
import gzip
import json
import zlib
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.fakes.engine import FakeEngine, as_engine, posting, say
from web.http.asgi import ScopedApp
from web.http.body_budget import BODY_TIMEOUT, SMALL_BODY, BodyBudget, BodyReservation, BudgetedBody
from web.process.limits import Limits
from web.serving.app import create_app

TEXT = "/v1/completions"
ROOM = 1_000_000
LARGE = b"x" * 400_000
HI = {"prompt": "hi"}


def make(room: int = ROOM, most: int = ROOM) -> ScopedApp:
    return create_app(as_engine(FakeEngine(say("a"))), limits=Limits(body_bytes=most, bodies_bytes=room))


def length(size: int) -> dict[str, str]:
    return {"content-length": str(size)}


def test_the_last_eighth_is_for_small_bodies() -> None:
    bodies = BodyBudget(ROOM)
    with BodyReservation(bodies) as large, BodyReservation(bodies) as small:
        assert large.grow(ROOM * 7 // 8)
        assert not large.grow(1)
        assert not small.fits(SMALL_BODY + 1)
        assert small.grow(SMALL_BODY)
        assert not small.grow(1)
        assert bodies.held == ROOM * 7 // 8 + SMALL_BODY
    assert bodies.held == 0


@pytest.mark.parametrize(("size", "status"), [(ROOM + 1, 413), (ROOM // 2, 503)])
async def test_a_length_that_is_too_much_is_refused_before_the_body(size: int, status: int) -> None:
    app = make()
    async with posting(app, TEXT, LARGE + LARGE[:100_000], more=True) as held:
        await wait_all_tasks_blocked()
        async with posting(app, TEXT, b"", more=True, headers=length(size)) as refused:
            await refused.receive()
            assert refused.status == status
            assert (refused.headers.get("retry-after") == "1") == (status == 503)
        async with posting(app, TEXT, HI) as small:
            await small.receive_all()
        assert small.status == 200
        held.disconnect()
    assert app.bodies.held == 0


async def test_a_body_that_grows_too_much_is_refused_and_let_go() -> None:
    app = make()
    async with posting(app, TEXT, LARGE, more=True) as first, posting(app, TEXT, LARGE, more=True) as second:
        await wait_all_tasks_blocked()
        assert app.bodies.held == 2 * len(LARGE)
        second.send(LARGE, more=True)
        assert b"room for" in await second.receive()
        assert second.status == 503
        await wait_all_tasks_blocked()
        assert app.bodies.held == len(LARGE)
        first.send(LARGE[:200_000])
        await first.receive()
        assert first.status == 400, "no JSON, but read to its end"
    assert app.bodies.held == 0


async def test_a_slow_body_is_refused(autojump_clock: MockClock) -> None:
    app = make()
    async with posting(app, TEXT, LARGE, more=True) as slow:
        assert b"did not arrive in time" in await slow.receive()
    assert slow.status == 408
    assert trio.current_time() == BODY_TIMEOUT
    assert app.bodies.held == 0


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "deflate"])
async def test_a_compressed_body_is_read(encoding: str) -> None:
    app = make()
    packed = (zlib.compress if encoding == "deflate" else gzip.compress)(json.dumps(HI).encode())
    async with posting(app, TEXT, packed, headers={"content-encoding": encoding}) as asked:
        await asked.receive_all()
    assert asked.status == 200
    assert app.bodies.held == 0


@pytest.mark.parametrize(
    ("packed", "encoding", "status", "said"),
    [
        (gzip.compress(b" " * (ROOM + 1)), "gzip", 413, b""),
        (gzip.compress(b" " * (ROOM * 7 // 8)), "gzip", 503, b"room for"),  # with what it was before
        (b"{}", "gzip", 400, b"compressed body is broken"),
        (gzip.compress(b"{}")[:-4], "gzip", 400, b"does not end where it should"),
        (gzip.compress(b"{}") + b"more", "gzip", 400, b"does not end where it should"),
        (b"{}", "br", 415, b"the encoding 'br' is not read; gzip is"),
        (b"{}", "gzip, gzip", 415, b"is not read"),
    ],
    # A packed body holds the time: its bytes would name the test anew in every process.
    ids=["over the limit", "no room", "not packed", "cut off", "more behind it", "br", "twice"],
)
async def test_what_a_compressed_body_becomes_is_bounded(
    packed: bytes, encoding: str, status: int, said: bytes
) -> None:
    app = make(most=ROOM * 15 // 16 if status == 413 else ROOM, room=2 * ROOM if status == 413 else ROOM)
    async with posting(app, TEXT, packed, headers={"content-encoding": encoding}) as asked:
        assert said in await asked.receive()
    assert asked.status == status
    assert app.bodies.held == 0


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("end", ["hang up", "no JSON", "too large"])
@pytest.mark.usefixtures("no_collection")
async def test_nothing_keeps_a_body(end: str) -> None:
    """Memory is back when a request ends, not at the next full collection: no cycle leads to a body."""
    app = make(most=600_000)
    for _ in range(5):
        async with posting(app, TEXT, LARGE, more=end != "no JSON") as asked:
            await wait_all_tasks_blocked()
            if end == "hang up":
                asked.disconnect()
            if end == "too large":
                asked.send(LARGE, more=True)
    await wait_all_tasks_blocked()
    assert [one for one in gc.get_objects() if type(one) is BudgetedBody] == []
