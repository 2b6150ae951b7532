"""The routes that look at the engine, through Quart's test client."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from actors.core.receipts import CancelReason, Receipt
from tests.fakes.engine import FakeEngine, posting, token
from tests.unit.web.apps import CHAT, HI, error_in, make


async def test_health() -> None:
    engine = FakeEngine()
    client = make(engine).test_client()
    response = await client.get("/health")
    assert (response.status_code, await response.get_json()) == (200, {"status": "ok"})
    engine.sick = "shutting down"
    response = await client.get("/health")
    assert (await error_in(response, 503))["message"] == "shutting down"
    assert (await response.get_json())["status"] == "unavailable"


async def test_slots_and_requests() -> None:
    engine = FakeEngine([token("a")])
    app = make(engine)
    slots = await (await app.test_client().get("/slots")).get_json()
    assert slots["slots"] == [
        {
            "id": 0,
            "state": "decode",
            "request_id": "cmpl-1",
            "tokens": 7,
            "resident_tokens": 0,
            "draft_tokens": 9,
            "capacity": 0,
        },
        {
            "id": 1,
            "state": "idle",
            "request_id": None,
            "tokens": 0,
            "resident_tokens": 5,
            "draft_tokens": 4,
            "capacity": 0,
        },
    ]
    assert await (await app.test_client().get("/v1/requests")).get_json() == {"data": [], "detachable": []}
    async with posting(app, CHAT, HI) as connection:
        request = await engine.next_request()
        (live,) = (await (await app.test_client().get("/v1/requests")).get_json())["data"]
        assert (live["id"], live["states"], live["slots"]) == (request.id, ["queued"], [None])
        connection.disconnect()


def receipt_of(request_id: str) -> Receipt:
    return Receipt(request_id, 0, CancelReason.DISCONNECT, "prefill", 1.0, 1.5, 2.0, 9, 1, 8, 6, 2, 1, 4, 3)


async def test_receipts() -> None:
    engine = FakeEngine()
    engine.log = [receipt_of(f"cmpl-{i}") for i in range(3)]
    client = make(engine).test_client()
    newest = (await (await client.get("/v1/receipts?limit=2")).get_json())["data"]
    assert [receipt["request_id"] for receipt in newest] == ["cmpl-2", "cmpl-1"]
    assert newest[0]["reason"] == "client_disconnect"
    assert len((await (await client.get("/v1/receipts")).get_json())["data"]) == 3
    for limit in ("-1", "x", "1.5", "²", "9" * 30):
        error = await error_in(await client.get("/v1/receipts", query_string={"limit": limit}), 400)
        assert error["param"] == "limit"


async def test_receipts_of_one_request_may_wait_for_its_end() -> None:
    engine = FakeEngine([])
    app = make(engine)

    async def ids(query: str) -> list[str]:
        answer = await (await app.test_client().get(f"/v1/receipts?{query}")).get_json()
        return [receipt["request_id"] for receipt in answer["data"]]

    async with posting(app, CHAT, HI) as connection:
        request = await engine.next_request()
        engine.log = [receipt_of("a"), receipt_of("b")]
        assert await ids(f"request_id={request.id}") == []  # it does not wait unless it is told to
        assert await ids("request_id=a") == ["a"]
        assert await ids("request_id=nobody&wait=60") == []
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                assert await ids(f"request_id={request.id}&wait=60") == [request.id]

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            engine.log.append(receipt_of(request.id))
            connection.disconnect()
    error = await error_in(await app.test_client().get("/v1/receipts?wait=61"), 400)
    assert error["param"] == "wait"


async def test_receipts_do_not_wait_for_ever(autojump_clock: trio.testing.MockClock) -> None:
    engine = FakeEngine([])
    app = make(engine)
    async with posting(app, CHAT, HI) as connection:
        request = await engine.next_request()
        await app.test_client().get(f"/v1/receipts?request_id={request.id}&wait=7")
        assert trio.current_time() == pytest.approx(7)
        connection.disconnect()


@pytest.mark.parametrize("has_disk", [True, False])
async def test_statistics(has_disk: bool) -> None:
    engine = FakeEngine()
    engine.has_disk = has_disk
    response = await make(engine).test_client().get("/v1/statistics")
    assert response.status_code == 200
    answer = await response.get_json()
    assert answer["live_requests"] == 0
    assert answer["manager"]["cancels"] == {"client_disconnect": 3}
    assert answer["manager"]["device_losses"] == 0
    assert answer["tasks"] > 1
    assert answer["unread"] == {"bytes": 0, "budget": None, "readers": 0, "cut": 0}
    cache = answer["manager"]["cache"]
    assert cache["hits"] == {"resident": 5, "live": 0, "ram": 64, "disk": 128}
    assert cache["ram"] == {"blocks": 2, "bytes": 200, "budget": 500, "evictions": 7}
    if has_disk:
        assert cache["disk"]["rejected"] == {"checksum": 1}
        assert cache["disk"]["suspended"] is False
    else:
        assert cache["disk"] is None
