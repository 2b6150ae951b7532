"""The chat as one who uses it sees it: by labels and roles, in a page of a browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.live.browser.watching import Watched
from tests.live.server import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page, Route

    from tests.live.server import Server

Json = dict[str, Any]

WAIT_KEPT = """
async ([status, seconds]) => {
  const done = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const database = await done(indexedDB.open("cede-chat"));
  const wanted = (turn) => turn.role === "assistant" && turn.status === status && turn.content;
  for (const end = Date.now() + seconds * 1e3; ; ) {
    if (Date.now() > end) throw new Error(`waited in vain for an answer that is ${status}`);
    const kept = await done(database.transaction("conversations").objectStore("conversations").getAll());
    if (kept.some((conversation) => Object.values(conversation.turns).some(wanted))) break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  database.close();
}
"""
"""Return when the browser keeps an answer of this status that has a text."""

LONG = 4000
"""Tokens: nobody waits for the end of such an answer."""


class ChatPage:
    """The chat of a server.

    Attributes:
        page: the browser's.
        watched: what it asks for and complains of.

    Args:
        page: an empty one.
        server: whose chat is opened.
    """

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self.watched = Watched(page)
        page.goto(f"{server.url}/#/chat")
        self.message = page.get_by_label("Message", exact=True)
        self.message.wait_for()
        expect(page.locator("#chat-settings select").first).to_contain_text("cede-embedded")  # it may be folded

    @property
    def turns(self) -> Locator:
        """The turns that are shown."""
        return self.page.get_by_role("log", name="Conversation").get_by_role("article")

    @property
    def answer(self) -> Locator:
        """The last turn."""
        return self.turns.last

    def configure(self, **settings: object) -> None:
        """Fill in fields of the settings, by their labels."""
        panel = self.page.get_by_label("Settings of the conversation")
        for label, value in settings.items():
            panel.get_by_label(label, exact=True).fill(str(value))

    def send(self, text: str) -> None:
        """Write a message, and send it with the keyboard."""
        self.message.fill(text)
        self.message.press("Enter")

    def press(self, name: str, within: Locator | None = None) -> None:
        """Press a button by its name."""
        (within or self.page).get_by_role("button", name=name, exact=True).click()

    def send_endless(self, text: str) -> None:
        """Send a message whose answer goes on for as long as somebody listens, and wait until it has begun."""
        self.page.route("**/v1/chat/completions", _without_end)
        self.configure(max_tokens=LONG)
        self.send(text)
        expect(self.answer.locator(".figures")).to_contain_text("tokens/s")

    def start_new(self) -> None:
        """Begin another conversation."""
        self.press("New conversation")
        expect(self.turns).to_have_count(0)

    def wait_kept(self, status: str) -> None:
        """Wait until the browser keeps an answer of a status, with a text."""
        self.page.evaluate(WAIT_KEPT, [status, PATIENCE])

    def wait_ended(self) -> None:
        """Wait until no answer is being written, and one has been."""
        expect(self.answer).to_have_attribute("aria-busy", "false")
        expect(self.page.get_by_role("button", name="Send", exact=True)).to_be_visible()

    def ask(self, text: str) -> str:
        """Send a message; the figures of its whole answer."""
        count = self.turns.count()
        self.send(text)
        expect(self.turns).to_have_count(count + 2)
        self.wait_ended()
        return self.figures()

    def figures(self) -> str:
        """Return what the last answer took."""
        return self.answer.locator(".figures").inner_text()

    def text(self) -> str:
        """Of the last answer."""
        return self.answer.locator(".answer").last.inner_text()

    def export(self, to: Path) -> list[Json]:
        """Export all conversations into a file; what is in it."""
        with self.page.expect_download() as download:
            self.press("Export")
        download.value.save_as(to)
        found: list[Json] = json.loads(to.read_text())["conversations"]
        return found

    def import_(self, file: Path) -> None:
        """Import a file."""
        self.page.get_by_label("File to import").set_input_files(file)
        self.page.get_by_text("imported.").wait_for()


def _without_end(route: Route) -> None:
    body: Json = route.request.post_data_json or {}
    route.continue_(post_data=json.dumps(body | {"ignore_eos": True}))
