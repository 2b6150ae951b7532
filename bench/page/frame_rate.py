"""Frame rate of the page in a browser while a thousand events a second come, with its memory and elements.

    python -m bench.page.frame_rate [--seconds 60] [--slots 4] [--window 15] [--profile FILE]

It wants Playwright and a Chromium.  A recording of the feed (`bench.page.recording`) is played at its own pace to the
page in a headless Chromium, which draws in software.  Of each part of the time it prints:

    frames     that the browser began (`requestAnimationFrame`), a second, and the longest gap between two
    pictures   of the timeline that were drawn, a second
    heap       of JavaScript after a garbage collection, MiB
    elements   DOM nodes, as the browser counts them
    canvas     pixels of all of them
    busy       of the page's thread: the share of the time, and the share that was scripts and layout
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.page.recording import events_of, record
from bench.page.stand_in import StandIn

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

SIZE = (1280, 900)
FLAGS = ("--disable-dev-shm-usage",)
PARTS = 6
MIB = 2**20
COUNT = """
window.seen = { frames: 0, pictures: 0, longest: 0, last: null };
const turn = (now) => {
  seen.frames += 1;
  if (seen.last !== null) seen.longest = Math.max(seen.longest, now - seen.last);
  seen.last = now;
  requestAnimationFrame(turn);
};
requestAnimationFrame(turn);
const { clearRect } = CanvasRenderingContext2D.prototype;
CanvasRenderingContext2D.prototype.clearRect = function (...box) {
  seen.pictures += 1;
  clearRect.apply(this, box);
};
"""
TAKE = """() => {
  const { frames, pictures, longest } = seen;
  Object.assign(seen, { frames: 0, pictures: 0, longest: 0, last: null });
  const sizes = [...document.querySelectorAll("canvas")].map(({ width, height }) => width * height);
  return { at: performance.now() / 1e3, frames, pictures, longest, canvas: sizes.reduce((sum, size) => sum + size, 0) };
}"""


@dataclass(frozen=True)
class Moment:
    """Counts up to a moment.

    Attributes:
        seen: what the page itself counted since the moment before.
        metrics: the browser's, by their names in the DevTools protocol.
    """

    seen: dict[str, float]
    metrics: dict[str, float]


def look(page: Page, devtools: CDPSession) -> Moment:
    """Look at a page, after a garbage collection, and let the counting begin anew."""
    seen = page.evaluate(TAKE)
    devtools.send("HeapProfiler.collectGarbage")
    metrics = {entry["name"]: entry["value"] for entry in devtools.send("Performance.getMetrics")["metrics"]}
    page.evaluate(TAKE)
    return Moment(seen, metrics)


def line_of(before: Moment, now: Moment) -> str:
    """Return the figures of the time between two moments."""
    seen, metrics = now.seen, now.metrics
    seconds = seen["at"] - before.seen["at"]
    spent = {name: (value - before.metrics[name]) for name, value in metrics.items()}

    def share(*names: str) -> str:
        return f"{sum(spent[name] for name in names) / spent['Timestamp']:.0%}"

    return (
        f"{seconds:5.1f} s: {seen['frames'] / seconds:4.1f} frames/s, longest gap {seen['longest']:3.0f} ms, "
        f"{seen['pictures'] / seconds:4.1f} pictures/s; heap {metrics['JSHeapUsedSize'] / MIB:4.1f} MiB, "
        f"{metrics['Nodes']:.0f} elements, canvas {seen['canvas']:.0f}; busy {share('TaskDuration')}, "
        f"scripts {share('ScriptDuration')}, layout {share('LayoutDuration', 'RecalcStyleDuration')}"
    )


def measure(seconds: float, slots: int, window: int, profile: Path | None) -> None:
    """Play a recording to the page, and print the figures of each part of it."""
    from playwright.sync_api import sync_playwright

    (recording,) = record([seconds + 2], slots=slots)
    events = len(events_of(recording))
    click.echo(f"{events / recording[-1].at:.0f} events/s in {len(recording) / recording[-1].at:.1f} frames/s")
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    with StandIn() as stand_in, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS, chromium_sandbox=False)
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.add_init_script(COUNT)
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable")
        stand_in.play(recording, paced=True)
        page.goto(stand_in.url)
        page.get_by_text("connected").wait_for()
        page.get_by_label("Window").select_option(str(window))
        moments = [look(page, devtools)]
        if profile is not None:
            devtools.send("Profiler.enable")
            devtools.send("Profiler.start")
        for _ in range(PARTS):
            page.wait_for_timeout(seconds / PARTS * 1e3)
            moments.append(look(page, devtools))
            click.echo(line_of(*moments[-2:]))
        if profile is not None:
            profile.write_text(json.dumps(devtools.send("Profiler.stop")["profile"]))
        lost = page.locator(".lost").inner_text() if page.locator(".lost").is_visible() else "none"
        click.echo(f"events lost: {lost}; console: {said}")
        browser.close()


@click.command(help=__doc__)
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--slots", default=4, show_default=True, help="Of the engine that is recorded.")
@click.option(
    "--window",
    default=15,
    show_default=True,
    type=click.Choice(["5", "15", "60", "300"]),
    help="Seconds that are shown.",
)
@click.option("--profile", type=click.Path(path_type=Path), help="Write a profile there, for Chromium's DevTools.")
def main(seconds: float, slots: int, window: Any, profile: Path | None) -> None:  # noqa: ANN401
    """Measure."""
    measure(seconds, slots, int(window), profile)


if __name__ == "__main__":
    main()
