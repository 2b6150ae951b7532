"""The server's own page, in a real browser: it works without any other server, and nobody frames it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fakes.operations import OPERATIONS
from tests.live.browser.chromium import REBOUND
from tests.live.server import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.live.browser.chromium import Chromium
    from tests.live.browser.pages import PageServer
    from tests.live.server import Server

SUMMARIES = [operation.summary for operation in OPERATIONS]


DRAWN = "document.querySelector('rapi-doc')?.shadowRoot?.textContent ?? ''"


def drawn(page: Page) -> str:
    """The text of the page with all operations in it, whether or not their part of the list is open and in sight.

    It is asked for whole: a locator goes through thousands of elements, which takes a slow machine minutes.
    """

    def text() -> str:
        there = str(page.evaluate(DRAWN))
        return there if all(summary in there for summary in SUMMARIES) else ""

    return wait_for(text, "every operation to be drawn")


def test_the_page_shows_each_operation_asks_nobody_else_and_breaks_no_rule_of_its_own(
    chromium: Chromium, four_slots: Server
) -> None:
    def look(page: Page) -> tuple[list[str], list[str]]:
        asked: list[str] = []
        said: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{four_slots.url}/docs")
        drawn(page)
        return asked, said

    asked, said = chromium.visit(look)
    assert said == []
    assert [url for url in asked if not url.startswith((four_slots.url, "data:"))] == []


def test_a_link_leads_to_the_page_and_a_frame_does_not(
    chromium: Chromium, pages: PageServer, four_slots: Server
) -> None:
    address = f"{four_slots.url}/docs"

    def follow(page: Page) -> tuple[int, str]:
        page.goto(f"{pages.stranger}/")
        with page.expect_response(address) as answer:
            page.evaluate(
                "url => document.body.append(Object.assign(document.createElement('iframe'), {src: url}))", address
            )
        framed = answer.value.status
        page.evaluate("url => { location.href = url }", address)
        page.wait_for_url(lambda url: url.startswith(address))
        drawn(page)
        return framed, page.url.partition("#")[0]  # the page names the part that is shown

    assert REBOUND in pages.stranger
    assert chromium.visit(follow) == (403, address)
