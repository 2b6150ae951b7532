"""The live view while events come by the thousand: it takes all of them, and keeps no more than its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from playwright.sync_api import expect

from bench.page.recording import events_of, record
from bench.page.stand_in import StandIn
from tests.live.browser.watching import Watched

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

    from bench.page.recording import Recording
    from tests.live.browser.chromium import Chromium

SHOWN = 30  # receipts
COLLECTIONS = 5
FILLS, GOES_ON, AND_ON = 22.0, 8.0, 20.0  # seconds of a recording: the first one fills what is bounded
MIB = 2**20


class Held(NamedTuple):
    """Memory that a page holds on to."""

    heap: float
    elements: float
    listeners: float


def held(page: Page, devtools: CDPSession) -> Held:
    """Return what is left after garbage collections: the least of some, for what one freed lets the next free more."""
    found = []
    for _ in range(COLLECTIONS):
        devtools.send("HeapProfiler.collectGarbage")
        metrics = {entry["name"]: entry["value"] for entry in devtools.send("Performance.getMetrics")["metrics"]}
        found.append(Held(metrics["JSHeapUsedSize"], metrics["Nodes"], metrics["JSEventListeners"]))
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return min(found)


def cancelled(recording: Recording) -> list[str]:
    """The requests of the newest receipts of a recording, the newest first."""
    return [event["request_id"] for event in reversed(events_of(recording)) if event["type"] == "receipt"][:SHOWN]


def play(page: Page, stand_in: StandIn, recording: Recording) -> None:
    """Have a page follow a recording to its end."""
    stand_in.play(recording, paced=False)
    expect(page.locator(".receipts code").first).to_have_text(cancelled(recording)[0])
    page.get_by_text("No connection to the server").wait_for()  # the recording has ended


def test_ten_thousands_of_events_are_taken_and_leave_nothing_behind(chromium: Chromium) -> None:
    recordings = record([FILLS, GOES_ON, AND_ON], slots=2)
    assert min(len(events_of(recording)) for recording in recordings) > 6000

    def look(page: Page) -> tuple[list[Held], list[list[str]], list[str]]:
        watched, devtools = Watched(page), page.context.new_cdp_session(page)
        devtools.send("Performance.enable")
        found, shown = [], []
        with StandIn() as stand_in:
            page.goto(stand_in.url)
            for number, recording in enumerate(recordings, start=1):
                play(page, stand_in, recording)
                assert stand_in.streams == number
                expect(page.locator(".lost")).to_be_hidden()
                found.append(held(page, devtools))
                shown.append(page.locator(".receipts code").all_inner_texts())
            page.close()
        return found, shown, watched.said

    (_, before, after), shown, said = chromium.visit(look)
    assert said == []
    for recording, listed in zip(recordings, shown, strict=True):
        newest = cancelled(recording)
        assert listed[: len(newest)] == newest
    assert after.heap < before.heap + 2 * MIB
    assert after.elements < before.elements + 100  # of those who ask just then
    assert after.listeners < before.listeners + 10


def test_a_page_that_was_too_slow_is_told_for_how_much(chromium: Chromium) -> None:
    (recording,) = record([14.0], slots=2, pause=10.0)
    lost = sum(frame.data["lost"] for frame in recording)
    assert lost > 1000

    def look(page: Page) -> tuple[str, list[str]]:
        watched = Watched(page)
        with StandIn() as stand_in:
            page.goto(stand_in.url)
            play(page, stand_in, recording)
            told = page.locator(".lost").inner_text()
            page.close()
        return told, watched.said

    told, said = chromium.visit(look)
    assert f"too slow for {lost} events" in told
    assert said == []
