"""Answers of a real server in a real browser: they stream, stop, go on and are asked for again, and nothing is lost."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.live.browser.chat.chat_page import ChatPage

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.live.browser.chromium import Chromium
    from tests.live.fork_server import ForkedServer
    from tests.live.server import Server

SCHEMA = {
    "type": "object",
    "properties": {"sure": {"type": "boolean"}, "kind": {"enum": ["a", "b"]}},
    "required": ["sure", "kind"],
    "additionalProperties": False,
}
TOOL = {
    "name": "look",
    "parameters": {
        "type": "object",
        "properties": {"at": {"enum": ["here", "there"]}},
        "required": ["at"],
        "additionalProperties": False,
    },
}


def test_an_answer_streams_in_and_says_what_it_took(chromium: Chromium, four_slots: Server) -> None:
    def use(page: Page) -> tuple[str, str, list[str], list[str]]:
        chat = ChatPage(page, four_slots)
        chat.send_endless("import os")
        expect(chat.answer).to_have_attribute("aria-busy", "true")
        half = chat.text()
        expect(chat.answer.locator(".answer").last).not_to_have_text(half)
        page.unroute("**/v1/chat/completions")
        chat.press("Stop")
        chat.wait_ended()
        chat.configure(max_tokens=20)
        return half, chat.ask("And now?"), chat.watched.said, chat.watched.asked

    half, figures, said, asked = chromium.visit(use)
    assert half
    assert re.search(r"first token after \d+\.\d\d s · prompt \d+ tokens, \d+ cached", figures), figures
    assert said == []
    assert [url for url in asked if not url.startswith((four_slots.url, "data:"))] == []


@pytest.mark.parametrize("way", ["Esc", "Stop"])
def test_a_stopped_answer_shows_the_receipt_that_the_server_has(
    chromium: Chromium, four_slots: Server, way: str
) -> None:
    def use(page: Page) -> tuple[str, dict[str, str], list[str]]:
        chat = ChatPage(page, four_slots)
        chat.send_endless("import os")
        page.keyboard.press("Escape") if way == "Esc" else chat.press("Stop")
        receipt = chat.answer.locator(".receipt")
        expect(receipt).to_contain_text("Cancelled by hand while")
        receipt.locator("summary").click()
        names, values = receipt.locator("dt").all_inner_texts(), receipt.locator("dd").all_inner_texts()
        return receipt.locator("summary").inner_text(), dict(zip(names, values, strict=True)), chat.watched.said

    summary, shown, said = chromium.visit(use)
    (receipt,) = four_slots.receipts(shown["Request"])
    assert shown["Reason"] == receipt["reason"] == "operator"
    assert shown["Phase"] == receipt["phase"]
    assert shown["Tokens kept"] == str(receipt["kept_tokens"])
    assert shown["Tokens wasted"] == str(receipt["wasted_tokens"])
    assert shown["Layers after the cancel"] == str(receipt["layers_after_cancel"])
    freed = (receipt["slot_freed_at"] - receipt["detected_at"]) * 1e3
    assert shown["Slot freed"].startswith(f"{freed:.1f} ms" if freed < 10 else f"{freed:.0f} ms")
    assert f"{receipt['kept_tokens']} are kept for a retry" in summary
    assert said == []
    four_slots.wait_idle()


def test_what_is_edited_and_sent_again_finds_its_kv(chromium: Chromium, four_slots: Server) -> None:
    def use(page: Page) -> tuple[str, str, list[str]]:
        chat = ChatPage(page, four_slots)
        chat.configure(max_tokens=12, seed=7)
        chat.ask("Write a module that opens a socket, reads from it and closes it again.")
        chat.ask("Now with a timeout.")
        before = chat.figures()
        question = chat.turns.nth(2)
        chat.press("Edit", question)
        editor = question.get_by_label("The turn's text")
        editor.fill("Now without a timeout.")
        editor.press("Enter")
        expect(chat.turns.nth(2)).to_contain_text("2/2")
        expect(chat.answer.locator(".figures")).to_contain_text("cached")
        after = chat.figures()
        chat.press("Earlier version", chat.turns.nth(2))
        expect(chat.turns.nth(2)).to_contain_text("Now with a timeout.")
        assert chat.figures() == before, "the earlier branch is as it was"
        return before, after, chat.watched.said

    before, after, said = chromium.visit(use)
    for figures in (before, after):
        found = re.search(r"prompt (\d+) tokens, (\d+) cached", figures)
        assert found is not None, figures
        assert 0 < int(found[2]) < int(found[1])
    assert said == []


def test_retry_adds_a_version_and_continue_goes_on(chromium: Chromium, four_slots: Server) -> None:
    def use(page: Page) -> tuple[str, str]:
        chat = ChatPage(page, four_slots)
        chat.configure(max_tokens=8, temperature=0)
        chat.ask("import os")
        chat.press("Retry", chat.answer)
        expect(chat.answer).to_contain_text("2/2")
        chat.wait_ended()
        begun = chat.text()
        chat.press("Continue", chat.answer)
        expect(chat.answer.locator(".answer").last).not_to_have_text(begun)
        chat.wait_ended()
        return begun, chat.text()

    begun, whole = chromium.visit(use)
    assert whole.startswith(begun.rstrip())
    assert len(whole) > len(begun)


def test_an_answer_that_is_held_to_a_schema_is_shown_as_json(chromium: Chromium, four_slots: Server) -> None:
    def use(page: Page) -> str:
        chat = ChatPage(page, four_slots)
        page.get_by_text("Structured output").click()
        chat.configure(**{"JSON schema of answers": "{"})
        chat.send("Are you sure?")
        page.get_by_role("alert").filter(has_text="The schema is no JSON").first.wait_for()
        assert chat.turns.count() == 0, "nothing was sent"
        chat.configure(**{"JSON schema of answers": json.dumps(SCHEMA)})
        chat.ask("Are you sure?")
        return chat.answer.locator("pre").inner_text()

    shown = chromium.visit(use)
    assert json.loads(shown).keys() == {"sure", "kind"}
    assert shown == json.dumps(json.loads(shown), indent=2)


def test_a_call_is_shown_and_its_result_is_sent(chromium: Chromium, four_slots: Server) -> None:
    def use(page: Page) -> tuple[list[str], list[str]]:
        chat = ChatPage(page, four_slots)
        page.locator("summary").get_by_text("Tools").click()
        chat.configure(**{"Tools, as JSON": json.dumps([TOOL])}, max_tokens=400)
        page.get_by_role("combobox", name="tool_choice").select_option("required")
        chat.ask("Look!")
        calls = chat.answer.get_by_label("Call of look")
        shown = calls.first.inner_text().split()
        fields = page.get_by_label("Result of look")
        fields.first.wait_for()
        for place in range(fields.count()):
            fields.nth(place).fill("a cat")
        page.get_by_role("combobox", name="tool_choice").select_option("none")
        chat.press("Send the results")
        expect(chat.turns.nth(2)).to_contain_text("Tool result: look")
        chat.wait_ended()
        return shown, chat.watched.said

    shown, said = chromium.visit(use)
    assert shown[:2] == ["calls", "look"]
    assert '"at":' in shown
    assert said == []


def test_an_error_of_the_server_is_shown_in_its_words(chromium: Chromium, four_slots: Server) -> None:
    def use(page: Page) -> str:
        chat = ChatPage(page, four_slots)
        chat.configure(temperature=99)
        chat.ask("Hi")
        return chat.answer.locator(".fault").inner_text()

    assert "temperature" in chromium.visit(use)


def test_an_answer_goes_on_while_the_live_view_is_shown(chromium: Chromium, four_slots: ForkedServer) -> None:
    def use(page: Page) -> tuple[set[str], set[str]]:
        chat = ChatPage(page, four_slots)
        chat.send_endless("import os")
        before = set(four_slots.requests())
        with four_slots.held():  # or it may end before the chat is shown again
            page.get_by_role("link", name="Live").click()
            page.get_by_role("heading", name="Cancels").wait_for()
            page.get_by_role("link", name="Chat", exact=True).click()
            expect(chat.answer).to_have_attribute("aria-busy", "true")
            shown, after = chat.text(), set(four_slots.requests())
        expect(chat.answer.locator(".answer").last).not_to_have_text(shown)
        chat.press("Stop")
        chat.wait_ended()
        return before, after

    before, after = chromium.visit(use)
    assert after
    assert after <= before  # no other was sent
    four_slots.wait_idle()
