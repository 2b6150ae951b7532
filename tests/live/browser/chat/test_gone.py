"""A server that is gone: whatever the page asks of it, it says so in plain words, and keeps what was written."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.live.browser.chat.chat_page import ChatPage
from tests.live.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from tests.live.browser.chromium import Chromium

KEPT = "What is here is kept; Retry asks again."


@pytest.fixture
def own() -> Iterator[Server]:
    """A server of the test's own, which dies in it."""
    with Server("--slots", "2") as server:
        yield server


def test_each_view_says_that_its_server_is_gone(chromium: Chromium, own: Server) -> None:
    def use(page: Page) -> list[str]:
        live = page.context.new_page()
        live.goto(own.url)
        live.get_by_text("slot 0: ").wait_for()
        chat = ChatPage(page, own)
        chat.send_endless("import os")
        own.signal(signal.SIGKILL)
        chat.wait_ended()
        assert chat.text(), "what had come is still there"
        said = [chat.answer.locator(".fault").inner_text()]
        page.unroute("**/v1/chat/completions")
        chat.ask("And now?")
        said.append(chat.answer.locator(".fault").inner_text())
        chat.press("Retry", chat.answer)
        expect(chat.answer).to_contain_text("2/2")
        chat.wait_ended()
        page.goto(f"{own.url}/#/live")  # whose module is not here yet
        said.append(page.get_by_role("alert").inner_text())
        said.append(live.locator(".status.away").inner_text())
        live.get_by_role("button", name="Show me").click()
        expect(live.get_by_text("The server does not answer.")).to_be_visible()
        return said

    assert chromium.visit(use) == [
        f"The connection to the server broke off before all had come. {KEPT}",
        f"The server does not answer. {KEPT}",
        "The server does not answer. Load this page again when it runs.",
        "No connection to the server. This page tries again and again.",
    ]
