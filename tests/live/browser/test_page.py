"""The page at `/`, in a real browser: it breaks no rule of its own, asks nobody else, and asks for a key it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from tests.live.browser.rules import THEMES, broken_rules
from tests.live.browser.watching import Watched
from tests.live.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from tests.live.browser.chromium import Chromium

KEY = "sk-of-mine"

SINKS = {
    "HTML": "document.querySelector('main').innerHTML = '<b>text</b>'",
    "a frame's document": "document.createElement('iframe').srcdoc = '<b>text</b>'",
    "a parsed document": "new DOMParser().parseFromString('<b>text</b>', 'text/html')",
    "a script": "document.createElement('script').text = 'window.hurt = 1'",
    "a script's address": "document.createElement('script').src = 'page/app.js'",
    "another policy": "trustedTypes.createPolicy('mine', { createHTML: (text) => text })",
}
"""What makes more than a text of a text, by what it makes."""


@pytest.fixture(scope="module")
def keyed() -> Iterator[Server]:
    """A server with a key."""
    with Server("--slots", "2", "--api-key", KEY) as server:
        yield server


def test_it_loads_without_a_complaint_and_asks_nobody_else(chromium: Chromium, four_slots: Server) -> None:
    def look(page: Page) -> Watched:
        watched = Watched(page)
        page.goto(four_slots.url)
        page.get_by_text("cede-embedded").wait_for()
        page.get_by_role("heading", name="Cancels").wait_for()
        return watched

    watched = chromium.visit(look)
    assert watched.said == []
    assert [url for url in watched.asked if not url.startswith((four_slots.url, "data:"))] == []


def test_it_asks_for_the_key_and_keeps_it_in_its_tab_alone(chromium: Chromium, keyed: Server) -> None:
    def look(page: Page) -> tuple[str | None, str]:
        page.goto(keyed.url)
        field = page.get_by_label("Yours")
        field.fill("wrong")
        field.press("Enter")
        field.fill("")  # it is asked for again
        field.fill(KEY)
        field.press("Enter")
        page.get_by_text("cede-embedded").wait_for()
        page.reload()
        page.get_by_text("cede-embedded").wait_for()
        kept = page.evaluate("JSON.stringify([localStorage, document.cookie])")
        page.get_by_text("slot 0: ").wait_for()  # the stream has the key, too
        other = page.context.new_page()
        other.goto(keyed.url)
        other.get_by_label("Yours").wait_for()
        return page.evaluate("sessionStorage.getItem('cede-key')"), kept

    in_tab, elsewhere = chromium.visit(look)
    assert in_tab == KEY
    assert KEY not in elsewhere


@pytest.mark.parametrize("theme", THEMES)
def test_the_question_for_the_key_breaks_no_rule(
    chromium: Chromium, keyed: Server, theme: Literal["dark", "light"]
) -> None:
    def look(page: Page) -> list[str]:
        page.emulate_media(color_scheme=theme)
        page.goto(keyed.url)
        page.get_by_label("Yours").wait_for()
        return broken_rules(page)

    assert chromium.visit(look) == []


@pytest.mark.parametrize("sink", SINKS)
def test_text_becomes_neither_html_nor_a_script(chromium: Chromium, four_slots: Server, sink: str) -> None:
    def look(page: Page) -> tuple[str | None, list[str]]:
        watched = Watched(page)
        page.goto(four_slots.url)
        page.get_by_text("slot 0: ").wait_for()
        refused = page.evaluate(f"() => {{ try {{ {SINKS[sink]} }} catch (error) {{ return error.name }} }}")
        return refused, watched.said

    refused, said = chromium.visit(look)
    assert refused == "TypeError"
    assert [line for line in said if "The action has been blocked" not in line] == []
