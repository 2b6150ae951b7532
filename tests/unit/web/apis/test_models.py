"""The model that is served, for clients of OpenAI's API and of Anthropic's."""

from __future__ import annotations

from tests.unit.web.apps import make

VERSION = {"anthropic-version": "2023-06-01"}


async def test_the_models_are_shown_to_each_client_in_its_own_words() -> None:
    client = make().test_client()
    page = await (await client.get("/v1/models", headers=VERSION)).get_json()
    assert (page["data"][0]["type"], page["has_more"]) == ("model", False)
    model = await (await client.get("/v1/models/bytes", headers=VERSION)).get_json()
    assert model == page["data"][0]
    assert (await (await client.get("/v1/models")).get_json())["object"] == "list"
    missing = await client.get("/v1/models/x", headers=VERSION)
    assert missing.status_code == 404
    assert (await missing.get_json())["error"]["type"] == "not_found_error"
