"""A response is its key's alone: for any other there is none of that id."""

from __future__ import annotations

from typing import Any

import pytest
import trio.testing

from tests.fakes.engine import FakeEngine, as_engine, say, token
from web.apis.responses.stored.state import open_state
from web.process.access.api_keys import ApiKey, KeyRing, digest_of
from web.process.options import StateOptions
from web.serving.app import create_app

KEYS = KeyRing([ApiKey(digest_of(name.encode()), name, admin=name == "root") for name in ("alice", "bob", "root")])
ALICE, BOB, ROOT = ({"x-api-key": name} for name in ("alice", "bob", "root"))
ROUTES = [("GET", ""), ("GET", "?stream=true"), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", "")]


@pytest.mark.parametrize("background", [False, True])
async def test_what_one_key_has_stored_another_does_not_find(
    background: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Nor an admin, who sees and cancels requests, and reads nobody's texts."""
    engine = FakeEngine([token("a")] if background else say("a"))
    async with open_state(as_engine(engine), StateOptions()) as state:
        client: Any = create_app(as_engine(engine), keys=KEYS, state=state).test_client()
        asked = await client.post("/v1/responses", json={"input": "x", "background": background}, headers=ALICE)
        name = (await asked.get_json())["id"]
        for headers in (BOB, ROOT):
            for method, rest in ROUTES:
                path = f"/v1/responses/{name}{rest}"
                found = await client.open(path, method=method, headers=headers)
                missing = await client.open(path.replace(name, "resp_x"), method=method, headers=headers)
                assert (found.status_code, missing.status_code) == (404, 404), path
                told = await found.get_data(as_text=True)
                assert told.replace(name, "") == (await missing.get_data(as_text=True)).replace("resp_x", "")
            goes_on = {"input": "x", "previous_response_id": name}
            for path in ("/v1/responses", "/v1/responses/input_tokens"):
                assert (await client.post(path, json=goes_on, headers=headers)).status_code in (400, 404)
        assert (await client.get(f"/v1/responses/{name}", headers=ALICE)).status_code == 200, "it is still there"
        assert (await client.delete(f"/v1/responses/{name}", headers=ALICE)).status_code == 200
