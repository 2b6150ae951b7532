"""The server's own page, in a real browser: it works without any other server, and nobody frames it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.live.browser.chromium import REBOUND
from web.app import APIS

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.live.browser.chromium import Chromium
    from tests.live.browser.pages import PageServer
    from tests.live.server import Server

SUMMARIES = [operation.summary for api in APIS for operation in api.operations]


def test_the_page_shows_each_operation_asks_nobody_else_and_breaks_no_rule_of_its_own(
    chromium: Chromium, four_slots: Server
) -> None:
    def look(page: Page) -> tuple[list[str], list[str], str]:
        asked: list[str] = []
        said: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{four_slots.url}/docs")
        page.get_by_text(SUMMARIES[-1]).first.wait_for()
        return asked, said, page.evaluate("document.querySelector('rapi-doc').shadowRoot.textContent")

    asked, said, shown = chromium.visit(look)
    assert said == []
    assert [url for url in asked if not url.startswith((four_slots.url, "data:"))] == []
    assert [summary for summary in SUMMARIES if summary not in shown] == []


def test_a_link_leads_to_the_page_and_a_frame_does_not(
    chromium: Chromium, pages: PageServer, four_slots: Server
) -> None:
    address = f"{four_slots.url}/docs"

    def follow(page: Page) -> tuple[int, str]:
        page.goto(f"{pages.stranger}/")
        page.evaluate(
            "url => document.body.append(Object.assign(document.createElement('iframe'), {src: url}))", address
        )
        framed = page.wait_for_event("response", lambda answer: answer.url == address).status
        page.evaluate("url => { location.href = url }", address)
        page.get_by_text(SUMMARIES[-1]).first.wait_for()
        return framed, page.url.partition("#")[0]  # the page names the part that is shown

    assert REBOUND in pages.stranger
    assert chromium.visit(follow) == (403, address)
