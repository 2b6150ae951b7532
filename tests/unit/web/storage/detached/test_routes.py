"""Clients come back to their requests, through the application: in every API's words, and nobody else may."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from actors.core.generation import Failed
from actors.core.receipts import CancelReason
from runtime.errors import StepFailed
from tests.fakes.engine import FakeEngine, FakeRequest, finished, posting, say, token
from tests.unit.web.apps import error_in
from tests.unit.web.storage.detached.clients import FORMATS, GetExchange, detaching, events_in
from web.http.asgi import ScopedApp
from web.process.access.api_keys import KeyRing
from web.process.access.key_file import read_keys

DETACH = {"cede": {"on_disconnect": "detach"}}
WORDS = [f"word{number} " for number in range(40)]


async def read(app: ScopedApp, path: str, headers: dict[str, str] | None = None) -> tuple[int | None, bytes]:
    """The status and the body of an answer to a GET."""
    async with posting(app, path, b"", headers=headers, exchange=GetExchange) as exchange:
        body = await exchange.receive_all()
    return exchange.status, body


@pytest.mark.parametrize("path", FORMATS)
@pytest.mark.parametrize("how", ["query", "header"])
async def test_a_cut_stream_goes_on_where_it_was_byte_for_byte(path: str, how: str) -> None:
    go = trio.Event()

    async def script(request: FakeRequest) -> None:
        request.emit(*map(token, WORDS[:10]))
        await go.wait()
        request.emit(*map(token, WORDS[10:]), finished(tokens=len(WORDS)))

    async with detaching(FakeEngine(script)) as (app, state):
        async with posting(app, path, FORMATS[path] | {"stream": True} | DETACH) as first:
            known = b""
            while b"word5" not in known:
                known += await first.receive()
            first.disconnect()
        before = events_in(known[: known.rindex(b"\n\n" if b"\n\n" in known else b"\n") + 2], path)
        (run,) = state.runs
        assert (run.readers, run.ended.is_set()) == (0, False)
        async with trio.open_nursery() as nursery:
            rest: list[bytes] = []

            async def come_back() -> None:
                last = len(before) - 1
                query = f"?after={last}" if how == "query" else "?after=-1"
                headers = {} if how == "query" else {"last-event-id": str(last)}
                status, body = await read(app, f"/v1/requests/{run.id}/stream{query}", headers)
                assert status == 200
                rest.extend(events_in(body, path))

            nursery.start_soon(come_back)
            nursery.start_soon(come_back)
            await trio.testing.wait_all_tasks_blocked()
            assert run.readers == 2
            go.set()
        _, unbroken = await read(app, f"/v1/requests/{run.id}/stream")
        whole = events_in(unbroken, path)
        half = len(rest) // 2
        assert rest[:half] == rest[half:]
        assert before + rest[:half] == whole
        assert [run.log.read_nowait(number) for number in range(len(run.log))] == whole


@pytest.mark.parametrize("path", FORMATS)
async def test_a_whole_answer_is_there_later(path: str) -> None:
    go = trio.Event()

    async def script(request: FakeRequest) -> None:
        await go.wait()
        request.emit(*say(*WORDS))

    async with detaching(FakeEngine(script)) as (app, state):
        async with posting(
            app, path, FORMATS[path] | {"stream": False} | without_stream_options(path) | DETACH
        ) as first:
            await trio.testing.wait_all_tasks_blocked()
            first.disconnect()
        (run,) = state.runs
        assert await read(app, f"/v1/requests/{run.id}/result") == (
            202,
            b'{"id":"%s","status":"in_progress"}' % run.id.encode(),
        )
        go.set()
        status, body = await read(app, f"/v1/requests/{run.id}/result?wait=60")
        assert status == 200
        assert b"word0 word1 " in body
        assert await read(app, f"/v1/requests/{run.id}/result") == (200, body)


def without_stream_options(path: str) -> dict[str, Any]:
    return {"stream_options": None} if "stream_options" in FORMATS[path] else {}


async def test_who_stays_gets_the_whole_answer_or_its_error() -> None:
    body = FORMATS["/v1/completions"] | DETACH
    async with detaching(FakeEngine(say("Hel", "lo"))) as (app, _):
        answer = await app.test_client().post("/v1/completions", json=body)
        assert (await answer.get_json())["choices"][0]["text"] == "Hello"
    async with detaching(FakeEngine([Failed(0, StepFailed("broken"))])) as (app, state):
        error = await error_in(await app.test_client().post("/v1/completions", json=body), 500)
        (run,) = state.runs
        for _ in range(2):
            again = await app.test_client().get(f"/v1/requests/{run.id}/result")
            assert await error_in(again, 500) == error


async def test_nothing_is_told_to_another_key(autojump_clock: MockClock) -> None:
    keys = KeyRing(read_keys(["sk-1", "sk-2"], None))
    mine, others = ({"authorization": f"Bearer sk-{number}"} for number in (1, 2))
    async with detaching(FakeEngine([token("a")]), keys=keys) as (app, state):
        client: Any = app.test_client()
        async with posting(app, "/v1/completions", {"prompt": "hi", "stream": True} | DETACH, headers=mine) as first:
            await first.receive()
            (run,) = state.runs
            for path in ("stream", "result"):
                with trio.fail_after(60):  # of virtual time: who is let in waits for an end that does not come
                    answer = await client.get(f"/v1/requests/{run.id}/{path}", headers=others)
                nothing = await client.get(f"/v1/requests/x/{path}", headers=others)
                assert await error_in(answer, 404) | {"message": ""} == await error_in(nothing, 404) | {"message": ""}
            assert (await (await client.get("/v1/requests", headers=others)).get_json())["detachable"] == []
            assert (await client.delete(f"/v1/requests/{run.id}", headers=others)).status_code == 404
            assert len((await (await client.get("/v1/requests", headers=mine)).get_json())["detachable"]) == 1
            first.disconnect()
        assert (await client.delete(f"/v1/requests/{run.id}", headers=mine)).status_code == 200
        await run.ended.wait()
        assert (await client.delete(f"/v1/requests/{run.id}", headers=others)).status_code == 404
        assert (await client.delete(f"/v1/requests/{run.id}", headers=mine)).status_code == 200
        await trio.testing.wait_all_tasks_blocked()
        assert (await client.get(f"/v1/requests/{run.id}/stream", headers=mine)).status_code == 404


async def test_who_knows_all_is_told_that_nothing_follows() -> None:
    async with detaching(FakeEngine(say("a"))) as (app, state):
        await app.test_client().post("/v1/completions", json={"prompt": "hi", "stream": True} | DETACH)
        (run,) = state.runs
        last = len(run.log) - 1
        assert (await read(app, f"/v1/requests/{run.id}/stream?after={last}"))[0] == 204
        assert (await read(app, f"/v1/requests/{run.id}/stream?after={last - 1}"))[0] == 200


@pytest.mark.parametrize(
    ("path", "headers", "param"),
    [
        ("stream?after=x", {}, "after"),
        ("stream?after=-2", {}, "after"),
        ("stream", {"last-event-id": "x"}, "Last-Event-ID"),
        ("stream", {"last-event-id": "9" * 30}, "Last-Event-ID"),
        ("result", {}, "request_id"),
    ],
)
async def test_what_cannot_be_read_is_refused(path: str, headers: dict[str, str], param: str) -> None:
    async with detaching(FakeEngine(say("a"))) as (app, state):
        await app.test_client().post("/v1/completions", json={"prompt": "hi", "stream": True} | DETACH)
        (run,) = state.runs
        answer = await app.test_client().get(f"/v1/requests/{run.id}/{path}", headers=headers)
        assert (await error_in(answer, 400))["param"] == param


async def test_an_ordinary_request_is_not_there_and_ends_with_its_client() -> None:
    async with detaching(FakeEngine([token("a")])) as (app, state):
        client: Any = app.test_client()
        async with posting(app, "/v1/completions", {"prompt": "hi", "stream": True}) as first:
            await first.receive()
            request_id = first.headers["x-request-id"]
            assert (await client.get(f"/v1/requests/{request_id}/stream")).status_code == 404
            assert list(state.runs) == []
            first.disconnect()


async def test_silence_is_told_and_numbered_as_all_else(autojump_clock: MockClock) -> None:
    async with detaching(FakeEngine([token("a")]), keep_alive=10) as (app, state):
        async with posting(app, "/v1/messages", FORMATS["/v1/messages"] | {"stream": True} | DETACH) as first:
            await trio.sleep(35)
            first.disconnect()
        (run,) = state.runs
        frames = [run.log.read_nowait(number) or b"" for number in range(len(run.log))]
        assert sum(b"event: ping" in frame for frame in frames) >= 3
        assert [frame.partition(b"\n")[0] for frame in frames] == [b"id: %d" % n for n in range(len(frames))]


async def test_a_server_that_keeps_nothing_refuses() -> None:
    async with detaching(FakeEngine(say("a")), max_background=0) as (app, _):
        answer = await app.test_client().post("/v1/completions", json={"prompt": "hi"} | DETACH)
        assert (await error_in(answer, 503))["code"] == "background_full"


async def test_a_reader_who_goes_ends_nothing_and_delete_does() -> None:
    engine = FakeEngine([token("a")])
    async with detaching(engine) as (app, state):
        async with posting(app, "/v1/completions", {"prompt": "hi", "stream": True} | DETACH) as first:
            await first.receive()
            first.disconnect()
        request = await engine.next_request()
        assert request.cancels == []
        (run,) = state.runs
        await app.test_client().delete(f"/v1/requests/{run.id}")
        await run.ended.wait()
        assert request.cancels == [CancelReason.OPERATOR]
