"""The chat without a mouse, without sight and on small screens."""

from __future__ import annotations

import re
from itertools import cycle
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.live.browser.chat.chat_page import ChatPage
from tests.live.browser.chat.test_hostile_answers import stream
from tests.live.browser.rules import THEMES, broken_rules, choose_theme

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    from tests.live.browser.chromium import Chromium
    from tests.live.server import Server

ANSWER = """# A heading

Some *words* with `code` and [a link](https://example.org).

| a | b |
|---|---|
| 1 | 2 |

- [x] done
- one

For $5 or $6 there is $\\frac{1}{2}$, and \\(x \\in \\{1, 2\\}\\).
$$
x = y
$$

```python
def f(x):  # a comment
    return "text", 1, "%s"
```
""" % ("wider than any screen " * 12)


DROPPED = "() => { const all = new DataTransfer(); all.items.add(new File(['here'], 'b.txt')); return all; }"


def answered(page: Page, server: Server) -> ChatPage:
    """A chat with an answer that has a bit of everything."""

    def answer(route: Route) -> None:
        route.fulfill(status=200, headers={"content-type": "text/event-stream"}, body=stream(ANSWER, 20))

    page.route("**/v1/chat/completions", answer)
    chat = ChatPage(page, server)
    chat.press("Write a Python function that merges two sorted lists, with a test.")  # one of the examples
    chat.wait_ended()
    expect(chat.answer.locator("pre .hljs-keyword")).to_have_count(2)
    expect(chat.answer.locator("math")).to_have_count(3)
    expect(chat.answer).to_contain_text("For $5 or $6 there is")
    return chat


@pytest.mark.parametrize(("theme", "width"), [*zip(cycle(THEMES), [320, 820, 1280], strict=False)])
def test_nothing_keeps_anybody_out(chromium: Chromium, four_slots: Server, theme: str, width: int) -> None:
    def use(page: Page) -> list[str]:
        page.set_viewport_size({"width": width, "height": 700})
        ChatPage(page, four_slots)
        choose_theme(page, theme)
        found = broken_rules(page)
        chat = answered(page, four_slots)
        found += broken_rules(page)
        if width < 1000:
            chat.press("Settings")
        page.locator("summary").get_by_text("Tools").click()
        found += broken_rules(page)
        if width < 1000:
            chat.press("Settings")
        chat.press("Edit", chat.turns.first)
        return found + broken_rules(page)

    assert chromium.visit(use) == []


@pytest.mark.parametrize("width", [320, 768, 1280])
def test_nothing_is_wider_than_the_screen(chromium: Chromium, four_slots: Server, width: int) -> None:
    def use(page: Page) -> tuple[int, bool]:
        page.set_viewport_size({"width": width, "height": 640})
        chat = answered(page, four_slots)
        return page.evaluate("document.documentElement.scrollWidth"), chat.message.is_visible()

    assert chromium.visit(use) == (width, True)


def test_keys_are_enough(chromium: Chromium, four_slots: Server) -> None:
    def use(page: Page) -> list[str]:
        chat = ChatPage(page, four_slots)
        expect(chat.message).to_be_focused()
        page.keyboard.type("one")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("two")
        assert chat.message.input_value() == "one\ntwo"
        assert chat.turns.count() == 0
        page.get_by_label("Files to attach").set_input_files({"name": "a.py", "mimeType": "", "buffer": b"x = 1"})
        expect(chat.message).to_have_value("one\ntwo\n\na.py\n```py\nx = 1\n```\n\n")
        page.dispatch_event(".transcript", "drop", {"dataTransfer": page.evaluate_handle(DROPPED)})
        expect(chat.message).to_have_value(re.compile("b.txt\n```txt\nhere\n```\n\n$"))
        expect(chat.message).to_be_focused()
        page.route("**/v1/chat/completions", lambda route: route.fulfill(status=200, body=stream("Yes.", 9)))
        page.keyboard.press("Enter")
        expect(chat.turns).to_have_count(2)
        chat.wait_ended()
        expect(chat.message).to_be_focused()
        chat.press("Edit", chat.turns.first)
        expect(page.get_by_label("The turn's text")).to_be_focused()
        page.keyboard.press("Escape")
        expect(chat.turns.first.get_by_role("button").first).to_be_focused()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Edit"
        chat.answer.get_by_role("button", name="Retry").focus()
        page.keyboard.press("Enter")
        expect(chat.answer).to_contain_text("2/2")
        expect(page.get_by_role("log", name="Conversation")).to_be_focused()
        for _hidden_and_shown in range(2):
            page.get_by_role("button", name="Settings").press("Enter")
        expect(page.locator("#chat-settings select").first).to_be_focused()
        for name, key in (("Rename", "Escape"), ("Rename", "Enter"), ("Delete", "Tab Enter")):
            page.get_by_role("button", name=name).press("Enter")
            for each in key.split():
                page.keyboard.press(each)
            expect(page.locator(".conversations .title")).to_be_focused()
        return chat.watched.said

    assert chromium.visit(use) == []


def test_a_screen_reader_is_told_sentences_and_the_end(chromium: Chromium, four_slots: Server) -> None:
    text = "This is a first sentence, which is whole. This is a second one, which is whole, too. And the rest"

    def use(page: Page) -> tuple[str | None, list[str], str]:
        page.route("**/v1/chat/completions", lambda route: route.fulfill(status=200, body=stream(text, 4)))
        chat = ChatPage(page, four_slots)
        chat.send("Hi")
        expect(page.locator("#announcer")).to_contain_text("The answer is complete.")
        shown = page.get_by_role("log", name="Conversation")
        said = page.get_by_role("log", name="The answer as it comes").get_by_role("paragraph").all_inner_texts()
        return shown.get_attribute("aria-live"), said, " ".join(said)

    live, said, all_said = chromium.visit(use)
    assert live == "off"
    assert all_said == text
    assert len(said) <= 3
