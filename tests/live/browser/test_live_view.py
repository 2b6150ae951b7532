"""The live view in a real browser: it shows cancels where they land, causes some, and outlives its server."""

from __future__ import annotations

import http.client
import json
import re
import signal
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.live.browser.watching import Watched
from tests.live.fork_server import ForkedServer
from tests.live.server import COMPLETIONS, PATIENCE, Json, Server, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.live.browser.chromium import Chromium

FOREVER = {"prompt": "import os", "max_tokens": -1, "ignore_eos": True, "stream": True}


@pytest.fixture
def own() -> Iterator[Server]:
    """A server of the test's own."""
    with Server("--slots", "2") as server:
        yield server


def opened(page: Page, server: Server) -> Watched:
    """The page, when it has its first frame."""
    watched = Watched(page)
    page.goto(server.url)
    page.get_by_text("connected").wait_for()
    page.get_by_text("slot 0: ").wait_for()
    return watched


SLOW = """
[[fault]]
what = "slow-step"
step = 1
every = 1
seconds = 0.03
"""


@pytest.mark.parametrize("pace", ["fast", "slow"])
def test_show_me_lands_three_cancels_and_tells_their_receipts(chromium: Chromium, tmp_path: Path, pace: str) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(SLOW)
    flags = ("--chaos", str(plan)) if pace == "slow" else ()

    def look(page: Page) -> tuple[list[str], list[str], list[str], list[Json]]:
        with Server("--slots", "2", "--draft-tokens", "2", *flags) as server:
            watched = opened(page, server)
            nothing = page.get_by_text("Nothing has happened since this page was opened.")
            expect(nothing).to_be_visible()
            page.get_by_role("button", name="Show me").click()
            page.get_by_role("button", name="Go on live").wait_for()  # it is over: the picture stands still
            expect(nothing).to_have_count(0)
            server.wait_idle()
            receipts = server.get("/v1/receipts")["data"]
            expect(page.locator(".receipts li")).to_have_count(len(receipts))
            cards = page.locator(".told li").all_inner_texts()
            return list(watched.said), cards, page.locator(".receipts li").all_inner_texts(), receipts

    said, (prompt, answer, queue), listed, receipts = chromium.visit(look)
    assert said == []
    assert "Hung up while its prompt is read" in prompt
    assert "Hung up while it writes" in answer
    assert "It had no slot yet" in queue
    assert [receipt["phase"] for receipt in receipts].count("queued") == 1
    read = next(receipt for receipt in receipts if account(receipt) in prompt)
    written = next(receipt for receipt in receipts if account(receipt) in answer)
    if pace == "slow":  # else it may be the machine that is too slow to meet the moment
        assert read["phase"] == "prefill"
        assert read["prompt_tokens"] / 4 < read["kept_tokens"] < read["prompt_tokens"] * 3 / 4
    assert written["phase"] in ("draft", "verify")
    assert f"{written['accepted_tokens']} of {written['drafted_tokens']} drafts were accepted" in answer
    for receipt in receipts:
        assert any(receipt["request_id"] in text for text in listed), receipt


def account(receipt: Json) -> str:
    """Return what a card says of a receipt's tokens."""
    return f"Of {receipt['computed_tokens']} computed tokens {receipt['kept_tokens']} are kept"


def test_a_hang_up_on_anothers_request_lands_and_is_said(chromium: Chromium, four_slots: ForkedServer) -> None:
    with closing(http.client.HTTPConnection(*four_slots.address, timeout=PATIENCE)) as other, ExitStack() as hold:
        other.request("POST", COMPLETIONS, json.dumps(FOREVER), {"content-type": "application/json"})
        answer = other.getresponse()
        request_id = answer.headers["x-request-id"]
        hold.enter_context(four_slots.held())  # or it may have ended, or have been cut off, before the page is there

        def look(page: Page) -> tuple[str, str]:
            opened(page, four_slots)
            with page.expect_response(lambda response: response.request.method == "DELETE"):
                page.get_by_role("button", name=f"Hang up on {request_id}").click()
            hold.close()
            receipt = page.locator(".receipts li").filter(has_text=request_id)
            receipt.wait_for()
            expect(page.locator(".requests li").filter(has_text=request_id)).to_have_count(0)
            return receipt.inner_text(), page.locator("#announcer").inner_text()

        told, said = chromium.visit(look)
        assert b"[DONE]" in answer.read()
    (receipt,) = four_slots.receipts(request_id)
    assert receipt["reason"] == "operator"
    assert "Cancelled by hand" in told
    assert "Cancelled by hand" in said


def test_it_finds_a_server_again_that_was_started_anew(chromium: Chromium, own: Server) -> None:
    host, port = own.address

    def look(page: Page) -> str:
        opened(page, own)
        own.signal(signal.SIGTERM)
        page.get_by_text(re.compile("server has stopped|No connection")).wait_for()
        own.wait_exit()
        with Server("--slots", "3", "--port", str(port)) as again:
            assert again.address == (host, port)
            page.get_by_text("slot 2: ").wait_for()
            page.get_by_text("connected").wait_for()
            again.ask("POST", COMPLETIONS, {"prompt": "x", "max_tokens": 2}, **{"Content-Type": "application/json"})
            wait_for(lambda: again.get("/v1/statistics")["manager"]["steps"], "a step")
            page.get_by_text(re.compile(r"slot \d: [1-9]\d* of .*kept")).wait_for()
            return page.locator(".statuses").inner_text()

    assert "connected" in chromium.visit(look)


def test_a_page_that_watches_does_not_keep_a_server_from_its_end(chromium: Chromium, own: Server) -> None:
    def look(page: Page) -> str:
        opened(page, own)
        own.signal(signal.SIGTERM)
        page.get_by_text(re.compile("server has stopped")).wait_for()
        return page.locator(".status").first.inner_text()

    assert "The server has stopped" in chromium.visit(look)
    assert own.wait_exit() == 0


def test_time_stands_still_and_goes_back_and_on(chromium: Chromium, four_slots: Server) -> None:
    def look(page: Page) -> tuple[bool, str, str]:
        opened(page, four_slots)
        four_slots.ask("POST", COMPLETIONS, {"prompt": "x", "max_tokens": 20}, **{"Content-Type": "application/json"})
        page.get_by_role("button", name="Pause").click()
        picture = "() => document.querySelector('.timeline canvas').toDataURL()"
        before = page.evaluate(picture)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        stands = page.evaluate(picture) == before
        page.get_by_label("Back").press("ArrowLeft")
        back = page.get_by_label("Back").get_attribute("aria-valuetext") or ""
        page.get_by_role("button", name="Go on live").click()
        return stands, back, page.get_by_role("button", name="Pause").inner_text()

    stands, back, button = chromium.visit(look)
    assert stands
    assert back.endswith(" seconds back")
    assert button == "Pause"


def test_the_lanes_are_a_table_too(chromium: Chromium, four_slots: Server) -> None:
    def look(page: Page) -> list[str]:
        opened(page, four_slots)
        page.get_by_text("The lanes as a table").press("Enter")
        page.get_by_role("rowheader", name="slot 3").wait_for()
        return page.get_by_role("columnheader").all_inner_texts()

    assert chromium.visit(look) == ["Lane", "Now", "Request", "Tokens", "Last cancel"]


def test_a_request_is_a_tree_and_says_who_waits_and_why(chromium: Chromium, tmp_path: Path) -> None:
    flags = ("--slots", "2", "--request-timeout", "600", "--hang-timeout", "0")
    with (
        ForkedServer(tmp_path, *flags) as server,
        closing(http.client.HTTPConnection(*server.address, timeout=PATIENCE)) as other,
    ):
        body = json.dumps(FOREVER | {"n": 3})
        other.request("POST", COMPLETIONS, body, {"content-type": "application/json"})
        answer = other.getresponse()

        def look(page: Page) -> tuple[str, list[str]]:
            opened(page, server)
            request = page.locator(".requests > li").filter(has_text=answer.headers["x-request-id"])
            request.get_by_text("next: every slot is taken").wait_for()
            return request.locator(".figures").inner_text(), request.locator("ul li").all_inner_texts()

        with server.held():  # or one of the two may have ended, so that the third has its slot
            figures, actors = chromium.visit(look)
        assert server.ask("DELETE", f"/v1/requests/{answer.headers['x-request-id']}")[0] == 200
        answer.read()
    assert re.search(r"\d+ s left", figures)
    assert len(actors) == 3
    assert actors[2].startswith("2: next")
    assert {text[-9:] for text in actors[:2]} == {"in slot 0", "in slot 1"}
