"""Floods over HTTP/2: each kind is ended by a word to its sender, and nothing that it left is worked off."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice

import h2.errors
import h2.events
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from bench.floods.kinds import FLOODS
from tests.hostile.frames import PREFACE, frame
from tests.live.h2_client import H2Client
from tests.unit.web.http.transport.guarded import is_well, serving
from web.process.limits import FRAME_BURST

CALM = h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
BOUNDED = {  # what their senders are told
    "reset": CALM,
    "ping": CALM,
    "ping's answers": CALM,
    "settings": CALM,
    "settings that change windows": CALM,
    "empty data": CALM,
    "data of one byte": CALM,
    "window update": CALM,
    "window update of a stream": CALM,
    "priority": CALM,
    "unknown": CALM,
    "requests without an end": CALM,
    "header bomb, too large": CALM,
    "refused, CONNECT": CALM,
    "made to reset": CALM,
    "continuation": h2.errors.ErrorCodes.PROTOCOL_ERROR,
}


def goaway(answer: bytes) -> int | None:
    """The code of the GOAWAY in what a server sent."""
    place = answer.find(b"\0\0\x08\x07\0\0\0\0\0")
    return None if place < 0 else int.from_bytes(answer[place + 13 : place + 17], "big")


@pytest.mark.parametrize("kind", BOUNDED)
async def test_whoever_sends_much_for_nothing_is_told_and_cut_off(kind: str, mock_clock: MockClock) -> None:
    def harmless(sent: bytes) -> bytes:
        return sent.replace(b"/v1/completions", b"/wait/completio").replace(b"/health", b"/wait/h")

    async def send() -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            for piece in (FLOODS[kind].opening, *islice(FLOODS[kind].pieces(), 2)):
                await stream.send_all(harmless(piece))
            await wait_all_tasks_blocked(0.01)
            await stream.send_eof()  # whoever has not been cut off by now never is

    answer = bytearray()
    async with serving() as server, await server.connect() as stream:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            while goaway(bytes(answer)) is None:
                data = await stream.receive_some()
                assert data, "it is told before it is closed"
                answer += data
            nursery.cancel_scope.cancel()
        assert goaway(bytes(answer)) == BOUNDED[kind]
        await stream.aclose()
        await wait_all_tasks_blocked(0.01)
        assert len(server.app.visits) <= FRAME_BURST // 10
        assert all(visit.ended.is_set() for visit in server.app.visits)
        await is_well(server)


@pytest.mark.parametrize("kind", ["reset", "answered"])
async def test_what_a_closed_connection_left_is_dropped(kind: str) -> None:
    """Fifty requests came before the close, in one piece; those that are not begun when it is seen never are."""
    piece = next(FLOODS[kind].pieces())
    async with serving() as server:
        stream = await server.connect()
        os.write(stream.socket.fileno(), FLOODS[kind].opening + piece[: len(piece) // 20])
        stream.socket.close()
        await wait_all_tasks_blocked(0.01)
        assert len(server.app.visits) < 10
        await is_well(server)


async def test_after_the_word_nothing_more_is_begun(mock_clock: MockClock) -> None:
    """It stands in the same piece as what made the server say it."""
    pings = frame(6, 1, 0, bytes(8)) * (FRAME_BURST + 1)
    block = b"\x82\x86\x04\x05/wait\x01\x01a"
    async with serving() as server, await server.connect() as stream:
        await stream.send_all(PREFACE + frame(4, 0, 0, b"") + pings + frame(1, 5, 1, block))
        await wait_all_tasks_blocked(0.01)
        assert goaway(bytes(await stream.receive_some())) == CALM
        assert server.app.visits == []


async def test_a_stream_beside_floods_has_its_turns(mock_clock: MockClock) -> None:
    """Two clients have 64 KiB waiting; a neighbour's request is begun before theirs are worked off."""
    piece = next(FLOODS["answered"].pieces())[: 2**15].replace(b"/health", b"/wait/x")
    async with serving() as server:
        floods = [await server.connect() for _ in range(2)]
        neighbour = await server.connect()
        for stream in floods:
            os.write(stream.socket.fileno(), FLOODS["answered"].opening + piece)
        os.write(neighbour.socket.fileno(), b"GET /refuse HTTP/1.1\r\nHost: a\r\n\r\n")
        while (await server.app.visit()).path != "/refuse":
            pass
        assert len(server.app.visits) < 20
        for stream in (*floods, neighbour):
            await stream.aclose()


async def test_a_client_that_cancels_and_is_answered_in_turns_is_never_cut_off(mock_clock: MockClock) -> None:
    """Two hundred requests that were cancelled once they were being answered; those before it would be too many."""
    async with serving() as server, await server.connect() as stream:
        client = H2Client(stream)
        for _ in range(3 * FRAME_BURST // 10):
            number = await client.ask("GET", b"/flood")
            while not isinstance(event := await client.next_event(), h2.events.ResponseReceived):
                pass
            assert event.stream_id == number
            client.h2.reset_stream(number)
            await client.flush()
            await wait_all_tasks_blocked()
        assert await client.answer(await client.ask("GET", b"/refuse")) == b"404"
