"""Which key a client has sent, and whose it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from werkzeug.datastructures import Headers

from tests.fakes.engine import FakeEngine, as_engine, say
from tests.unit.web.apps import CHAT, HI, error_in
from web.access.api_keys import ApiKey, ApiKeyError, KeyRefused, KeyRing, plain_key, read_keys
from web.app import create_app

if TYPE_CHECKING:
    from pathlib import Path

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


def test_a_key_given_twice_is_one_key(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("sk-1\nsk-1\n")
    assert read_keys(["sk-1"], tmp_path / "keys") == [plain_key(b"sk-1")]


def test_no_key_where_one_is_expected_is_refused(tmp_path: Path) -> None:
    """Rather than serving everybody."""
    (tmp_path / "keys").write_text(" \n\n")
    with pytest.raises(ApiKeyError, match="there is no key in it"):
        read_keys([], tmp_path / "keys")
    with pytest.raises(ApiKeyError, match="the key is empty"):
        read_keys(["sk-flag", " "], None)


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
