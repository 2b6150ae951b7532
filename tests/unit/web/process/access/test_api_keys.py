"""API keys: which a client has sent, and whose it is."""

from __future__ import annotations

import hmac
from contextlib import suppress
from typing import Any

import pytest
from werkzeug.datastructures import Headers

from actors.core.receipts import CancelReason, Receipt
from tests.fakes.engine import FakeEngine, as_engine, posting, say, token
from tests.unit.web.apps import CHAT, HI, error_in
from web.process.access.api_keys import ApiKey, KeyRefused, KeyRing, plain_key
from web.process.access.key_file import read_keys
from web.serving.app import create_app

KEYS = ("sk-flag", "sk-other", "sk-admin")
RING = KeyRing(read_keys(["sk-flag", " sk-other "], None))


def found(**headers: str) -> ApiKey:
    return RING.find(Headers({name.replace("_", "-"): value for name, value in headers.items()}))


def test_a_key_is_kept_as_a_digest() -> None:
    assert "sk-" not in repr(read_keys(["sk-flag"], None))


def test_each_key_has_a_name_of_its_own_that_does_not_depend_on_the_others() -> None:
    assert found(Authorization="Bearer sk-flag") == read_keys(["sk-flag"], None)[0]
    assert found(Authorization="bearer  sk-other ").name != found(Authorization="Bearer sk-flag").name


def test_a_key_comes_as_a_bearer_or_in_the_header_of_anthropics_clients() -> None:
    assert found(x_api_key="sk-flag") == found(Authorization="Bearer sk-flag")
    assert found(Authorization="Bearer ", x_api_key="sk-flag") == found(Authorization="Bearer sk-flag")
    assert found(Authorization="Bearer sk-wrong", x_api_key="sk-flag") == found(Authorization="Bearer sk-flag")


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "sk-flag", "Bearer sk-flag sk-other", "Bearer sk-fla"])
def test_what_is_no_key_is_refused(header: str) -> None:
    with pytest.raises(KeyRefused):
        found(Authorization=header)
    with pytest.raises(KeyRefused):
        found(x_api_key=header if header != "sk-flag" else "sk-fla")


@pytest.mark.parametrize("sent", ["sk-0", "sk-4", "sk-wrong", "", "s" * 1000])
def test_a_key_is_compared_with_all_keys_by_digests_of_one_length(sent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the time that it takes tells nothing: neither which key it is, nor how much of one is right."""
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def counted(given: bytes, known: bytes) -> bool:
        compared.append((len(given), len(known)))
        return compare(given, known)

    ring = KeyRing(read_keys([f"sk-{number}" for number in range(5)], None))
    monkeypatch.setattr(hmac, "compare_digest", counted)
    with suppress(KeyRefused):
        ring.find(Headers({"Authorization": f"Bearer {sent}"}))
    assert compared == [(32, 32)] * 10, "as a bearer, and as the other header, which is empty"


async def test_a_request_belongs_to_the_key_that_asked() -> None:
    for keys, owner in ((RING, plain_key(b"sk-flag").name), (None, None)):
        for stream in (False, True):
            engine = FakeEngine(say("a"))
            client = create_app(as_engine(engine), keys=keys).test_client()
            headers = {"Authorization": "Bearer sk-flag"}
            assert (await client.post(CHAT, json=HI | {"stream": stream}, headers=headers)).status_code == 200
            assert (await engine.next_request()).asked.owner == owner


async def test_who_has_no_key_is_told_how_to_send_one() -> None:
    refused = await create_app(as_engine(FakeEngine()), keys=RING).test_client().post(CHAT, json=HI)
    assert (await error_in(refused, 401))["code"] == "invalid_api_key"
    assert refused.headers["www-authenticate"] == "Bearer"


# --- a key sees its own requests --------------------------------------------------------------------------------------

ADMIN = ApiKey(plain_key(b"sk-admin").digest, "root", admin=True)
ALL = KeyRing([*read_keys(["sk-flag", "sk-other"], None), ADMIN])


async def _ask(client: Any, key: str, method: str, path: str) -> tuple[int, Any]:  # noqa: ANN401
    response = await client.open(path, method=method, headers={"Authorization": f"Bearer {key}"})
    return response.status_code, await response.get_json()


async def test_a_key_lists_and_cancels_its_own_requests_and_an_admin_all() -> None:
    engine = FakeEngine([token("a")])
    app = create_app(as_engine(engine), keys=ALL)
    client = app.test_client()
    async with posting(app, CHAT, HI, headers={"authorization": "Bearer sk-flag"}):
        name = (await engine.next_request()).id
        listed = {key: (await _ask(client, key, "GET", "/v1/requests"))[1]["data"] for key in KEYS}
        assert {key: [one["id"] for one in data] for key, data in listed.items()} == {
            "sk-flag": [name],
            "sk-other": [],
            "sk-admin": [name],
        }
        status, error = await _ask(client, "sk-other", "DELETE", f"/v1/requests/{name}")
        missing, of_none = await _ask(client, "sk-other", "DELETE", "/v1/requests/none")
        assert (status, missing) == (404, 404)
        assert error["error"]["message"].replace(name, "") == of_none["error"]["message"].replace("none", "")
        assert not engine.live[name].cancels
        assert (await _ask(client, "sk-flag", "DELETE", f"/v1/requests/{name}"))[0] == 200


async def test_an_admin_cancels_others() -> None:
    engine = FakeEngine([token("a")])
    app = create_app(as_engine(engine), keys=ALL)
    async with posting(app, CHAT, HI, headers={"authorization": "Bearer sk-flag"}):
        name = (await engine.next_request()).id
        assert (await _ask(app.test_client(), "sk-admin", "DELETE", f"/v1/requests/{name}"))[0] == 200


async def test_receipts_are_those_of_the_key_and_the_limit_counts_these() -> None:
    engine = FakeEngine()
    mine, other = plain_key(b"sk-flag").name, plain_key(b"sk-other").name
    owners = [mine, other, None, mine, other, other]
    engine.log = [
        Receipt(f"r{i}", 0, CancelReason.DISCONNECT, "prefill", 1.0, 1.5, 2.0, 9, 1, 8, 6, 2, 1, 4, 3, owner)
        for i, owner in enumerate(owners)
    ]
    client = create_app(as_engine(engine), keys=ALL).test_client()
    shown = {key: (await _ask(client, key, "GET", "/v1/receipts?limit=2"))[1]["data"] for key in KEYS}
    assert {key: [one["request_id"] for one in data] for key, data in shown.items()} == {
        "sk-flag": ["r3", "r0"],
        "sk-other": ["r5", "r4"],
        "sk-admin": ["r5", "r4"],
    }


async def test_the_slots_do_not_tell_whose_requests_others_are() -> None:
    engine = FakeEngine([token("a")])
    app = create_app(as_engine(engine), keys=ALL)
    async with posting(app, CHAT, HI, headers={"authorization": "Bearer sk-flag"}) as connection:
        name = (await engine.next_request()).id
        engine.in_slot = name
        slots = {key: (await _ask(app.test_client(), key, "GET", "/slots"))[1]["slots"] for key in KEYS}
        assert {key: [slot["request_id"] for slot in shown] for key, shown in slots.items()} == {
            "sk-flag": [name, None],
            "sk-other": [None, None],
            "sk-admin": [name, None],
        }
        connection.disconnect()
