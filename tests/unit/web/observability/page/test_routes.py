"""Routes of the page: who gets it, who is told that a server runs, and what it may do."""

from __future__ import annotations

import pytest

from tests.fakes.engine import FakeEngine, as_engine
from tests.rows import every_row
from tests.unit.web.openapi.documents import make
from web.http.asgi import ScopedApp
from web.observability.page.files import SiteFiles
from web.process.access.api_keys import KeyRing
from web.process.access.key_file import read_keys
from web.serving.app import create_app

HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
SITE = SiteFiles().by_name


@pytest.fixture
def app() -> ScopedApp:
    """One for all files."""
    return make()


async def test_a_browser_gets_the_page() -> None:
    response = await make().test_client().get("/", headers=HTML)
    assert await response.get_data(as_text=False) == SITE["index.html"].content
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["vary"] == "Accept"


async def test_a_model_without_a_chat_template_has_no_chat() -> None:
    engine = FakeEngine()
    engine.model.chat = None
    app = create_app(as_engine(engine))
    page = await (await app.test_client().get("/", headers=HTML)).get_data(as_text=True)
    assert 'data-views="live"' in page


@every_row("accept", [None, "*/*", "application/json", "text/plain", "text/html;q=0"])
async def test_other_clients_see_that_a_server_runs(accept: str | None) -> None:
    client, headers = make().test_client(), {} if accept is None else {"Accept": accept}
    assert (await client.head("/", headers=headers)).status_code == 200
    response = await client.get("/", headers=headers)
    assert await response.get_data(as_text=True) == "cede is running"
    assert response.headers["vary"] == "Accept"


@every_row("name", SITE)
async def test_each_file_comes_whole_and_is_not_sent_again(app: ScopedApp, name: str) -> None:
    client = app.test_client()
    first = await client.get(f"/page/{name}")
    assert await first.get_data(as_text=False) == SITE[name].content
    assert first.headers["content-type"] == SITE[name].media_type
    assert first.headers["cache-control"] == "no-cache"
    again = await client.get(f"/page/{name}", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, await again.get_data(as_text=False)) == (304, b"")
    changed = await client.get(f"/page/{name}", headers={"If-None-Match": '"another"'})
    assert changed.status_code == 200


async def test_the_page_needs_no_key() -> None:
    client = make(keys=KeyRing(read_keys(["secret"], None))).test_client()
    assert (await client.get("/", headers=HTML)).status_code == 200
    assert (await client.get("/page/app.js")).status_code == 200


@pytest.mark.parametrize("path", ["/page/gone.js", "/page/../app.js", "/page/../../app.py", "/page/shared"])
async def test_there_are_no_other_files(path: str) -> None:
    response = await make().test_client().get(path)
    assert response.status_code == 404
    assert (await response.get_json())["error"]["type"] == "invalid_request_error"


async def test_scripts_of_this_origin_alone_are_run() -> None:
    response = await make().test_client().get("/", headers=HTML)
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
    assert "unsafe" not in policy
    assert policy.endswith("; require-trusted-types-for 'script'; trusted-types dompurify")
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
async def test_a_page_of_another_origin_gets_nothing(headers: dict[str, str]) -> None:
    client = make().test_client()
    for path in ("/", "/page/app.js"):
        assert (await client.get(path, headers=HTML | headers)).status_code == 403
