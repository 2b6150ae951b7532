"""The page at the control address: the very files of a server's page, which is told that it shows workers."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.unit.web.cluster.control.feed.workers import TellingWorkers
from web.cluster.control.routes import control_app
from web.http.browser_policy import BrowserPolicy
from web.observability.page.files import SiteFiles

SITE = SiteFiles().by_name


async def body(path: str, **headers: str) -> bytes:
    client: Any = control_app(TellingWorkers(), trio.Event(), BrowserPolicy()).test_client()
    response = await client.get(path, headers=headers)
    assert response.status_code == 200
    read: bytes = await response.get_data(as_text=False)
    return read


async def test_its_document_is_a_servers_but_for_the_views() -> None:
    index = await body("/", Accept="text/html")
    assert b'<body data-views="workers">' in index
    assert index.replace(b'"workers"', b'"live chat"') == SITE["index.html"].content


@pytest.mark.parametrize("name", ["app.js", "live/workers.js", "live/model.js", "style/live.css"])
async def test_its_files_are_a_servers(name: str) -> None:
    assert await body(f"/page/{name}") == SITE[name].content
