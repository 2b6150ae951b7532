"""The routes that look at the engine, through Quart's test client."""

from __future__ import annotations

import pytest

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
        {"id": 0, "state": "decode", "request_id": "cmpl-1", "tokens": 7, "resident_tokens": 0, "draft_tokens": 9},
        {"id": 1, "state": "idle", "request_id": None, "tokens": 0, "resident_tokens": 5, "draft_tokens": 4},
    ]
    assert await (await app.test_client().get("/v1/requests")).get_json() == {"data": []}
    async with posting(app, CHAT, HI) as connection:
        request = await engine.next_request()
        (live,) = (await (await app.test_client().get("/v1/requests")).get_json())["data"]
        assert (live["id"], live["states"], live["slots"]) == (request.id, ["queued"], [None])
        connection.disconnect()


async def test_receipts() -> None:
    engine = FakeEngine()
    engine.log = [
        Receipt(f"cmpl-{i}", 0, CancelReason.DISCONNECT, "prefill", 1.0, 1.5, 2.0, 9, 1, 8, 6, 2, 1, 4, 3)
        for i in range(3)
    ]
    client = make(engine).test_client()
    newest = (await (await client.get("/v1/receipts?limit=2")).get_json())["data"]
    assert [receipt["request_id"] for receipt in newest] == ["cmpl-2", "cmpl-1"]
    assert newest[0]["reason"] == "client_disconnect"
    assert len((await (await client.get("/v1/receipts")).get_json())["data"]) == 3
    for limit in ("-1", "x", "1.5", "²", "9" * 30):
        error = await error_in(await client.get("/v1/receipts", query_string={"limit": limit}), 400)
        assert error["param"] == "limit"


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
