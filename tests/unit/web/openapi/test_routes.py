"""Routes of the document and the page, which asks nobody else for anything."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.fakes.engine import FakeEngine
from tests.unit.web.openapi.documents import make
from web.openapi import routes
from web.openapi.document import openapi_document
from web.openapi.operations import apis_of
from web.openapi.routes import SCRIPTS, ServedDocument
from web.process.access.api_keys import KeyRing
from web.process.access.key_file import read_keys

KEYED = {"Authorization": "Bearer secret"}


async def test_the_page_needs_no_key_and_the_document_does() -> None:
    client = make(keys=KeyRing(read_keys(["secret"], None))).test_client()
    for path in ("/docs", *SCRIPTS):
        assert (await client.get(path)).status_code == 200
    assert (await client.get("/openapi.json")).status_code == 401
    document = await client.get("/openapi.json", headers=KEYED)
    assert {} not in (await document.get_json())["security"]


async def test_the_page_runs_scripts_of_its_own_origin_alone() -> None:
    client = make().test_client()
    page = await client.get("/docs")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    text = await page.get_data(as_text=True)
    scripts = re.findall(r'src="([^"]+)"', text)
    assert {f"/{source}" for source in scripts} == SCRIPTS.keys()
    assert text.count("<script") == len(scripts)  # none has its code in the page
    assert "//" not in text.replace("<!doctype", "")


async def test_the_scripts_come_whole_and_as_scripts() -> None:
    client = make().test_client()
    for path in SCRIPTS:
        response = await client.get(path)
        assert response.headers["content-type"] == "text/javascript; charset=utf-8"
        assert len(await response.get_data(as_text=False)) == int(response.headers["content-length"])


async def test_another_page_may_not_read_the_document() -> None:
    response = await make().test_client().get("/openapi.json", headers={"Origin": "https://elsewhere.example"})
    assert response.status_code == 403


async def test_the_document_is_made_once_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    build: Callable[..., Any] = openapi_document

    def counted(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        made.append(args)
        return build(*args, **kwargs)

    monkeypatch.setattr(routes, "openapi_document", counted)
    served = ServedDocument(apis_of(make()), keyed=False)
    read: list[bytes] = []

    async def ask() -> None:
        read.append(await served.read())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask)
    assert len(made) == 1
    assert len(set(read)) == 1


async def test_an_answer_that_may_not_be_so_long_is_refused() -> None:
    engine = FakeEngine()
    engine.unread = type(engine.unread)(each=1000)
    response = await make(engine).test_client().get("/openapi.json")
    assert response.status_code == 400
    assert (await response.get_json())["error"]["code"] == "answer_too_large"
