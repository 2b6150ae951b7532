"""Serving connections, on real loopback sockets: what a connection raises, how many there may be, the end."""

from functools import partial

import pytest
import trio
from quart import request
from quart_trio import QuartTrio
from trio.testing import wait_all_tasks_blocked

from tests.live.h2_client import H2Client
from tests.live.server import PATIENCE
from tests.unit.web.http.transport.guarded import get_request, happens, is_well, read_answers, read_on, serving
from web.http.transport.task_group import RequestScope
from web.process.limits import Limits

# a. What one connection raises ends at most that connection


async def test_late_body_is_swallowed_and_its_window_given_back() -> None:
    """An HTTP/2 request's body that comes after its answer; on Hypercorn, its first frame ends the server."""
    async with serving() as server, await server.connect() as stream:
        client = H2Client(stream)
        sent = 0
        while sent < 3 * 65535:  # three times what the connection's window would hold
            late = await client.ask("POST", b"/refuse", end=False)
            assert await client.answer(late) == b"404"
            for _ in range(2):
                size = min(2**14, client.h2.local_flow_control_window(late))
                client.h2.send_data(late, bytes(size))
                sent += size
            client.h2.end_stream(late)
            await client.flush()
        assert await client.answer(await client.ask("GET", b"/refuse")) == b"404"
        await is_well(server)


async def test_early_response_says_that_the_connection_ends() -> None:
    """Else a client would send its next request on it, and lose it."""
    head = b"POST /refuse HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n"
    async with serving() as server, await server.connect() as stream:
        await stream.send_all(head)
        with trio.fail_after(PATIENCE):
            early = b"".join([piece async for piece in stream])  # until it is closed
        assert early.startswith(b"HTTP/1.1 404")
        assert b"\r\nconnection: close\r\n" in early
    async with serving() as server, await server.connect() as stream:
        await stream.send_all(head.replace(b"/refuse", b"/measure") + b"abc")
        assert await read_answers(stream, 1) == [(200, b"3")]
        await stream.send_all(head.replace(b"/refuse", b"/measure") + b"abc")
        assert await read_answers(stream, 1) == [(200, b"3")], "a whole request keeps its connection"


async def test_what_a_connection_raises_ends_it_alone(caplog: pytest.LogCaptureFixture) -> None:
    """A :path beyond ASCII is one of the things that Hypercorn does not expect."""
    async with serving() as server, await server.get("/wait/bystander") as bystander:
        visit = await server.app.visit()
        async with await server.connect() as stream:
            client = H2Client(stream)
            await client.ask("GET", b"/wait/neighbour")
            neighbour = await server.app.visit()
            culprit = await client.ask("GET", b"/\xff")
            with pytest.raises((EOFError, trio.BrokenResourceError)):
                await client.answer(culprit)
        await happens(neighbour.ended)
        assert neighbour.cancelled
        visit.release.set()
        assert await read_answers(bystander, 1) == [(200, b"/wait/bystander")]
        await is_well(server)
    [line] = [record.getMessage() for record in caplog.records if record.name == "cede.web"]
    assert "UnicodeDecodeError" in line
    assert "127.0.0.1" in line


async def test_application_that_raises() -> None:
    async with serving() as server, await server.get("/wait/bystander") as bystander:
        visit = await server.app.visit()
        async with await server.get("/raise") as stream:
            assert (await read_answers(stream, 1))[0][0] == 500
        visit.release.set()
        assert await read_answers(bystander, 1) == [(200, b"/wait/bystander")]


async def test_cancelled_sender_leaves_the_connection_whole() -> None:
    """Headers that the protocol has made are sent, or HPACK's tables differ for every other stream."""
    async with serving() as server, await server.connect() as stream:
        client = H2Client(stream)
        await client.ask("GET", b"/impatient")
        await happens((await server.app.visit()).ended)
        assert await client.answer(await client.ask("GET", b"/refuse")) == b"404"


# No more connections than there is room for


async def test_a_connection_too_many_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(limits=Limits(connections=8)) as server:
        held = [await server.connect() for _ in range(8)]
        await held[0].send_all(get_request("/wait"))
        visit = await server.app.visit()
        for _ in range(3):
            async with await server.get("/refuse") as extra:
                [(status, body)] = await read_answers(extra, 1)
                assert status == 503
                assert b"too many open connections" in body
        for stream in held[1:3]:
            await stream.aclose()
        await wait_all_tasks_blocked(0.05)
        await is_well(server)
        visit.release.set()
        assert await read_answers(held[0], 1) == [(200, b"/wait")]
        for stream in held:
            await stream.aclose()
    assert caplog.text.count("refusing connections") == 1, "once for all that are refused in a row"


# Beginning and end


async def test_stopping_lets_the_busy_finish_and_closes_the_idle() -> None:
    async with serving() as server:
        idle = await server.get("/refuse")
        assert await read_answers(idle, 1) == [(404, b"no")]
        await server.app.visit()
        silent = await server.connect()
        busy = await server.get("/wait")
        visit = await server.app.visit()
        server.stop.set()
        with trio.fail_after(PATIENCE):
            assert await idle.receive_some() == b""
            assert await silent.receive_some() == b""
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream("127.0.0.1", server.port)
        assert server.app.life == ["startup"]
        assert not visit.ended.is_set()
        visit.release.set()
        assert await read_answers(busy, 1) == [(200, b"/wait")]
        await happens(server.ended)
        assert server.app.life == ["startup", "shutdown"]
        for stream in (idle, silent, busy):
            await stream.aclose()


async def test_server_closes_where_the_client_asks_it_to() -> None:
    """After a request that http.disconnect has just cancelled, as it does every one; HTTP/1.0 depends on it."""
    async with serving() as server, await server.connect() as stream:
        await stream.send_all(b"GET /refuse HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        with trio.fail_after(PATIENCE):
            assert await read_on(stream) > 0


LAST = b"GET /%s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("behind", [b"\r\n", b"x" * 10000, LAST % b"refuse"])
async def test_what_comes_behind_a_last_request_is_ignored(behind: bytes) -> None:
    """In the same packet as that, or later, while it is served."""
    async with serving() as server:
        for later in (b"", behind):
            async with await server.connect() as stream:
                await stream.send_all(LAST % b"wait" + behind)
                visit = await server.app.visit()
                await stream.send_all(later)
                await wait_all_tasks_blocked(0.01)
                visit.release.set()
                assert await read_answers(stream, 1) == [(200, b"/wait")]
                assert await stream.receive_some() == b"", "it is closed"
        await is_well(server)


async def test_a_connection_that_ends_for_two_reasons_is_closed_once(caplog: pytest.LogCaptureFixture) -> None:
    """What comes behind a request is an error, and then that request ends: each time it is told to close."""
    async with serving() as server:
        for _ in range(60):
            async with await server.connect() as stream:
                await stream.send_all((LAST % b"measure").replace(b"Connection: close\r\n", b"") + b"\0\r\n\r\n")
                with trio.fail_after(PATIENCE):
                    answer = b"".join([piece async for piece in stream])
            assert 1 <= answer.count(b"HTTP/1.1 ") <= 2  # of the request, and of what comes behind it
    assert caplog.text == ""


async def test_quart() -> None:
    """With the real framework: its lifespan runs, it finds the connection, its handler is cancelled."""
    app = QuartTrio(__name__)
    life: list[str] = []
    started, cancelled = trio.Event(), trio.Event()

    @app.before_serving
    async def startup() -> None:
        life.append("startup")

    @app.after_serving
    async def shutdown() -> None:
        life.append("shutdown")

    @app.get("/wait")
    async def wait() -> str:
        assert isinstance(request.scope["state"]["request_scope"], RequestScope)
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError

    async with serving(app) as server:
        for connect in (partial(server.get, "/wait", after=b"\r\n"), server.connect):
            started, cancelled = trio.Event(), trio.Event()
            stream = await connect()
            if connect == server.connect:
                await H2Client(stream).ask("GET", b"/wait")
            await happens(started)
            await stream.aclose()
            await happens(cancelled)
        server.stop.set()
        await happens(server.ended)
    assert life == ["startup", "shutdown"]
