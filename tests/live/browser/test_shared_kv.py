"""The live view shows who shares the KV, who belongs together, and what goes on without a client."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.live.browser.watching import Watched
from tests.live.server import COMPLETIONS, PATIENCE, Server, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.live.browser.chromium import Chromium

SLOW = """
[[fault]]
what = "slow-step"
step = 1
every = 1
seconds = 0.05
"""
"""So that what is to be seen is still there."""


def begin(server: Server, priority: int = 0, **cede: Any) -> http.client.HTTPConnection:  # noqa: ANN401
    """Ask for an answer as long as the context has room for, and do not read it."""
    connection = http.client.HTTPConnection(*server.address, timeout=PATIENCE)
    body = {"prompt": "import os", "max_tokens": -1, "ignore_eos": True, "stream": True, "cede": cede}
    body["priority"] = priority
    connection.request("POST", COMPLETIONS, json.dumps(body), {"content-type": "application/json"})
    return connection


def test_it_shows_who_is_preempted(chromium: Chromium, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(SLOW)

    def look(page: Page) -> None:
        with Server("--slots", "1", "--chaos", str(plan)) as server:
            page.goto(server.url)
            page.get_by_text("connected").wait_for()
            with closing(begin(server)):
                expect(page.get_by_role("group", name="Requests").get_by_text("in slot 0")).to_be_visible()
                with closing(begin(server, priority=-10)):
                    expect(page.get_by_text("is preempted, until a slot is free for it")).to_be_visible()
                    expect(page.get_by_text("1 in no slot are kept for those who were preempted")).to_be_visible()
                    (retained,) = server.get("/v1/statistics")["manager"]["pool"]["shelves"]
                    assert retained["tokens"] > 0
                expect(page.get_by_text("preempted once, ")).to_be_visible()
            wait_for(lambda: not server.requests(), "the end")

    chromium.visit(look)


def test_it_shows_the_pool_groups_and_requests_without_a_client(chromium: Chromium, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(SLOW)

    def look(page: Page) -> None:
        with Server("--slots", "3", "--chaos", str(plan)) as server:
            watched = Watched(page)
            page.goto(server.url)
            page.get_by_text("connected").wait_for()
            expect(page.get_by_role("heading", name="May outlive their clients")).to_be_hidden()
            expect(page.get_by_role("img", name="The pool of KV")).to_be_visible()
            with (
                closing(begin(server, group="agent/search", first_wins=True)),
                closing(begin(server, supersede="editor")),
                closing(begin(server, on_disconnect="detach")) as client,
            ):
                requests = page.get_by_role("group", name="Requests")
                expect(requests.get_by_text("races in group agent/search")).to_be_visible()
                expect(requests.get_by_text("the newest of editor")).to_be_visible()
                bar = page.locator(".pages .held")

                def is_drawn() -> bool:
                    """Return whether the bar is as long as what the server says is held."""
                    pool = server.get("/v1/statistics")["manager"]["pool"]
                    drawn: float = bar.evaluate("element => parseFloat(element.style.inlineSize)")
                    return bool(abs(drawn - 100 * pool["held"] / pool["positions"]) < 0.01)

                wait_for(is_drawn, "the bar")
                detached = page.get_by_role("group", name="May outlive their clients")
                expect(detached.get_by_text("one reader")).to_be_visible()
                client.close()
                expect(detached.get_by_text("nobody reads it for")).to_be_visible()
                detached.get_by_role("button").click()  # ends it
                expect(detached.get_by_text("ended, kept for")).to_be_visible()
                detached.get_by_role("button", name="Drop the answer of").click()
                expect(page.get_by_role("heading", name="May outlive their clients")).to_be_hidden()
            wait_for(lambda: not server.requests(), "the end")
            assert watched.said == []

    chromium.visit(look)
