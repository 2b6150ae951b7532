"""Rendering, and how often: a long answer must not hold up the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.live.browser.chat.chat_page import ChatPage
from tests.live.browser.chat.test_hostile_answers import stream

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.live.browser.chromium import Chromium
    from tests.live.server import Server

GROW = """
async () => {
  const { AnswerText } = await import("/page/chat/view/answer.js");
  const answer = new AnswerText();
  document.body.append(answer.element);
  const paragraphs = Array.from({ length: 30 }, (_, place) => `Paragraph ${place} of *some* words.`);
  const text = [...paragraphs, "```json\\n{}\\n```", "The end."].join("\\n\\n");
  const made = new Set();
  let rendered = 0;
  for (let length = 1; length <= text.length; length += 1) {
    answer.update(text.slice(0, length), "markdown", length === text.length);
    const blocks = [...answer.element.children];
    rendered += blocks.filter((block) => !made.has(block)).length;
    blocks.forEach((block) => made.add(block));
    if (length === paragraphs[0].length + 2) answer.element.firstChild.dataset.first = "yes";
  }
  return { first: answer.element.firstChild.dataset.first, rendered, characters: text.length,
    blocks: answer.element.children.length };
}
"""

HOLD_FRAMES = "() => { window.frames_ = []; window.requestAnimationFrame = (run) => window.frames_.push(run) }"


def test_a_finished_block_is_not_rendered_again(chromium: Chromium, four_slots: Server) -> None:
    def use(page: Page) -> dict[str, Any]:
        ChatPage(page, four_slots)
        found: dict[str, Any] = page.evaluate(GROW)
        return found

    found = chromium.visit(use)
    assert found["blocks"] == 32
    assert found["first"] == "yes", "the element of the first block is the one that was there at the beginning"
    assert found["rendered"] <= found["characters"] + found["blocks"], "with each character only the last block"


def test_however_many_tokens_come_they_wait_for_one_frame(chromium: Chromium, four_slots: Server) -> None:
    def use(page: Page) -> tuple[int, str]:
        chat = ChatPage(page, four_slots)
        page.route("**/v1/chat/completions", lambda route: route.fulfill(status=200, body=stream("word " * 500, 5)))
        page.evaluate(HOLD_FRAMES)
        chat.send("Hi")
        chat.wait_kept("whole")
        waiting = page.evaluate("window.frames_.length")
        assert chat.turns.count() == 0
        page.evaluate("window.frames_.splice(0).forEach((run) => run())")
        expect(chat.turns).to_have_count(2)
        return waiting, chat.text()

    assert chromium.visit(use) == (1, ("word " * 500).strip())
