"""The page for those who see it otherwise, or not at all: axe-core's rules, in a theme at each of three widths."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from tests.live.browser.rules import THEMES, broken_rules, choose_theme
from tests.live.server import COMPLETIONS

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.live.browser.chromium import Chromium
    from tests.live.server import Server


@pytest.mark.parametrize(("theme", "width"), [*zip(cycle(THEMES), [1440, 820, 390], strict=False)])
def test_the_live_view_breaks_no_rule(chromium: Chromium, four_slots: Server, theme: str, width: int) -> None:
    def look(page: Page) -> list[str]:
        page.set_viewport_size({"width": width, "height": 1000})
        page.goto(four_slots.url)
        choose_theme(page, theme)
        page.get_by_text("slot 0: ").wait_for()
        page.get_by_text("The lanes as a table").click()
        kept, running = page.locator(".told li").filter(has_text="kept for a retry"), list[str]()
        while kept.count() < 2:  # a slow browser comes too late for the moment that is to be shown: once more
            page.get_by_role("button", name="Show me").click()
            page.get_by_role("button", name="Hang up on").first.wait_for()
            running += broken_rules(page)
            kept.nth(1).or_(page.locator(".show-me button:enabled")).first.wait_for()
        return running + broken_rules(page)

    assert chromium.visit(look) == []


def test_a_rule_that_is_broken_is_noticed(chromium: Chromium, four_slots: Server) -> None:
    def look(page: Page) -> list[str]:
        page.goto(four_slots.url)
        page.get_by_text("slot 0: ").wait_for()
        page.evaluate("() => document.querySelector('#view').append(document.createElement('button'))")
        return broken_rules(page)

    assert [line.partition(":")[0] for line in chromium.visit(look)] == ["button-name"]


def test_all_of_it_is_reached_by_the_keyboard(chromium: Chromium, four_slots: Server) -> None:
    def look(page: Page) -> list[str]:
        page.goto(four_slots.url)
        page.get_by_text("slot 0: ").wait_for()
        four_slots.ask("POST", COMPLETIONS, {"prompt": "x", "max_tokens": 2}, **{"Content-Type": "application/json"})
        reached = []
        for _ in range(14):
            page.keyboard.press("Tab")
            reached.append(
                page.evaluate("() => document.activeElement.textContent.trim() || document.activeElement.type")
            )
        return reached

    reached = chromium.visit(look)
    assert reached[0] == "Skip to the content"
    wanted = ["Show me", "Pause", "range", "The lanes as a table"]
    assert [name for name in reached if name in wanted] == wanted


def test_no_width_scrolls_sideways(chromium: Chromium, four_slots: Server) -> None:
    def look(page: Page) -> list[int]:
        over = []
        for width in (1440, 1024, 820, 641, 390, 320):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(four_slots.url)
            page.get_by_text("slot 0: ").wait_for()
            over.append(
                page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
            )
        return over

    assert chromium.visit(look) == [0] * 6
