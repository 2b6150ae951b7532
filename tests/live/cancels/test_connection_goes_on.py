"""Rights of a client over its connection that do not end its requests."""

from __future__ import annotations

import struct

import h2.events
import pytest
from h2.errors import ErrorCodes
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.live.cancels.connections import STEP, Client, End, frame_of, frames, in_phase, leave, serving
from web.process.limits import Limits


async def many_requests(client: Client) -> None:
    """Beyond Hypercorn's bound of 1000 on a connection, at which it said GOAWAY and forgot the rest."""
    for _ in range(26):
        asked = [await client.h2.ask("HEAD", b"/health") for _ in range(40)]
        answered: set[int] = set()
        while not answered.issuperset(asked):
            if isinstance(event := await client.h2.next_event(), h2.events.StreamEnded):
                answered.add(event.stream_id)


async def too_many_streams(client: Client) -> None:
    """More than are offered, by a client that does not know the number yet: one is refused, to be sent again."""
    asked = [await client.h2.ask("POST", b"/v1/completions", end=False) for _ in range(Limits().streams)]
    while not isinstance(event := await client.h2.next_event(), h2.events.StreamReset):
        pass
    assert event.error_code == ErrorCodes.REFUSED_STREAM
    asked.remove(event.stream_id)
    for stream_id in asked:
        client.h2.h2.reset_stream(stream_id)
    await client.h2.flush()


async def rapid_resets(client: Client) -> None:
    """A request and its reset, as often as it may have streams, without a look at what came of it."""
    for _ in range(Limits().streams):
        stream_id = client.h2.h2.get_next_available_stream_id()
        headers = [(":method", "POST"), (":path", "/v1/completions"), (":scheme", "http"), (":authority", "localhost")]
        client.h2.h2.send_headers(stream_id, headers)
        client.h2.h2.reset_stream(stream_id)
    await client.h2.flush()


async def window_goes_below_nothing(client: Client) -> None:
    """The initial window is set to 0 in the middle of an answer, and later given back."""
    await client.stream.send_all(frame_of(4, 0, 0, struct.pack(">HI", 4, 0)))
    await wait_all_tasks_blocked(0.001)
    client.server.clock.jump(STEP)
    await client.stream.send_all(frame_of(4, 0, 0, struct.pack(">HI", 4, 65535)))


async def tunnel(client: Client) -> None:
    """CONNECT, for a web socket or otherwise, is refused, and nothing else."""
    stream_id = client.h2.h2.get_next_available_stream_id()
    client.h2.h2.send_headers(stream_id, [(":method", "CONNECT"), (":authority", "localhost")], end_stream=True)
    await client.h2.flush()
    while not isinstance(event := await client.h2.next_event(), h2.events.StreamReset):
        pass
    assert event.stream_id == stream_id


PRIORITIES = [frame_of(2, 0, 2 * n + 1001, struct.pack(">IB", 2 * n + 1003, 9)) for n in range(1200)]

HARMLESS: dict[str, End] = {
    "GOAWAY, no error": leave(ErrorCodes.NO_ERROR),
    "GOAWAY, then windows": frames(
        frame_of(7, 0, 0, struct.pack(">II", 0, 0)),
        frame_of(8, 0, 0, struct.pack(">I", 1000)),
        frame_of(6, 0, 0, bytes(8)),
    ),
    "the 1001st request": many_requests,
    "a stream too many": too_many_streams,
    "rapid resets": rapid_resets,
    "a negative window": window_goes_below_nothing,
    "CONNECT": tunnel,
    "priorities of 1200 streams, in a circle": frames(*PRIORITIES),
}


@pytest.mark.parametrize("event", HARMLESS.values(), ids=HARMLESS.keys())
async def test_a_request_finishes_after(mock_clock: MockClock, event: End) -> None:
    async with serving(mock_clock) as server:
        client = await in_phase(server, "decode", http2=True)
        await event(client)
        assert await client.finishes()
        assert await server.pass_time(lambda: not server.live(), STEP)
        assert server.receipts() == []
        await client.stream.aclose()
