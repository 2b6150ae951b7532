"""Conversations in the browser: they outlive a reload, go into a file and come back, and are found and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.live.browser.chat.chat_page import ChatPage
from tests.live.browser.rules import broken_rules

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.live.browser.chromium import Chromium
    from tests.live.server import Server

# Makes the browser's database slow to delete, so that a page which does not wait for it takes the deletion back.
SLOW_DELETION = """
() => {
  const remove = IDBObjectStore.prototype.delete;
  IDBObjectStore.prototype.delete = function (key) {
    const request = remove.call(this, key), end = Date.now() + 500;
    const goOn = () => { if (Date.now() < end) this.get(key).onsuccess = goOn; };
    goOn();
    return request;
  };
}
"""


def test_a_reload_keeps_conversations(chromium: Chromium, four_slots: Server) -> None:
    def use(page: Page) -> tuple[str, str, list[str]]:
        chat = ChatPage(page, four_slots)
        chat.configure(max_tokens=8)
        chat.ask("A first question")
        before = chat.text()
        chat.wait_kept("whole")
        page.reload()  # the address names it
        expect(chat.turns).to_have_count(2)
        return before, chat.text(), chat.watched.said

    before, after, said = chromium.visit(use)
    assert before == after
    assert said == []


def test_a_reload_takes_up_the_answer_that_is_being_written(chromium: Chromium, four_slots: Server) -> None:
    def use(page: Page) -> tuple[str, str, str]:
        page.emulate_media(color_scheme="light")  # in which a cancel's colour is the harder to read
        chat = ChatPage(page, four_slots)
        chat.send_endless("import os")
        chat.wait_kept("streaming")
        page.reload()
        expect(chat.answer).to_have_attribute("aria-busy", "true")
        before = chat.text()
        expect(chat.answer.locator(".answer").last).not_to_have_text(before)
        chat.press("Stop")
        receipt = chat.answer.locator(".receipt")
        expect(receipt).to_contain_text("Cancelled by hand")
        receipt.locator("summary").click()
        assert broken_rules(page) == []
        return before, chat.text(), receipt.locator("dd").last.inner_text()

    before, after, request_id = chromium.visit(use)
    assert before
    assert after.startswith(before[: len(before) // 2])  # the end is marked up otherwise, once more has come
    (receipt,) = four_slots.receipts(request_id)
    assert receipt["reason"] == "operator"
    four_slots.wait_idle()


def test_what_is_exported_is_what_is_imported(chromium: Chromium, four_slots: Server, tmp_path: Path) -> None:
    def write(page: Page) -> object:
        chat = ChatPage(page, four_slots)
        chat.configure(max_tokens=8)
        chat.ask("A first question")
        chat.press("Retry", chat.answer)
        expect(chat.answer).to_contain_text("2/2")
        chat.wait_ended()
        chat.start_new()
        chat.configure(**{"System prompt": "Be brief."})
        chat.ask("Another question")
        return chat.export(tmp_path / "first.json")

    def read(page: Page) -> object:
        chat = ChatPage(page, four_slots)
        chat.import_(tmp_path / "first.json")
        found = chat.export(tmp_path / "second.json")
        chat.import_(tmp_path / "first.json")
        assert chat.export(tmp_path / "third.json") == found, "what is here already is not added again"
        return found

    written = chromium.visit(write)
    assert written
    assert chromium.visit(read) == written


def test_a_file_that_is_no_archive_is_refused_and_nothing_is_lost(
    chromium: Chromium, four_slots: Server, tmp_path: Path
) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"format": "cede-conversations", "version": 1, "conversations": [{"id": 1}]}')

    def use(page: Page) -> str:
        chat = ChatPage(page, four_slots)
        chat.configure(max_tokens=4)
        chat.ask("A question")
        page.get_by_label("File to import").set_input_files(file)
        message = page.get_by_text("was not imported")
        message.wait_for()
        page.get_by_role("button", name="A question", exact=True).wait_for()
        return message.inner_text()

    assert "conversations[0].id has to be a text" in chromium.visit(use)


def test_conversations_are_searched_renamed_and_deleted(chromium: Chromium, four_slots: Server) -> None:
    def use(page: Page) -> list[str]:
        chat = ChatPage(page, four_slots)
        chat.configure(max_tokens=4)
        chat.ask("About apples")
        chat.start_new()
        chat.ask("About pears")
        shown = page.locator(".conversations button.title")
        expect(shown).to_have_text(["About pears", "About apples"])
        page.get_by_label("Search conversations").fill("apples")
        expect(shown).to_have_text(["About apples"])
        page.get_by_label("Search conversations").fill("")
        chat.press("Rename About apples")
        page.get_by_label("Title").fill("Fruit")
        page.get_by_label("Title").press("Enter")
        expect(shown).to_have_text(["About pears", "Fruit"])
        chat.press("Delete About pears")
        page.evaluate(SLOW_DELETION)
        chat.press("Delete")
        expect(page.locator(".conversations .title")).to_have_text(["Fruit"])  # also without the question
        page.reload()
        expect(shown).to_have_text(["Fruit"])
        return chat.watched.said

    assert chromium.visit(use) == []


def test_two_tabs_know_of_each_other(chromium: Chromium, four_slots: Server) -> None:
    def use(page: Page) -> list[str]:
        one = ChatPage(page, four_slots)
        other = ChatPage(page.context.new_page(), four_slots)
        one.configure(max_tokens=4)
        one.ask("Asked in one")
        other.press("Asked in one")
        expect(other.turns).to_have_count(2)
        other.ask("Asked in the other")
        expect(one.page.locator(".conversations button.title")).to_have_count(1)
        one.ask("Asked in one again")  # another version of what was asked in the other
        for chat in (one, other):
            chat.page.bring_to_front()
            expect(chat.turns.nth(2)).to_contain_text("/2")
        one.press("Delete Asked in one")
        one.press("Delete")
        expect(other.turns).to_have_count(0)
        return [*one.watched.said, *other.watched.said]

    assert chromium.visit(use) == []
