"""Film *Show me*: `python -m docs.figures.animation [FILE]`, with Playwright, Pillow and a Chromium.

The page shows a server of its own and nobody else's requests.  The film runs at the speed at which it happened, and its
last picture stays for what is left of its time.
"""

from __future__ import annotations

import base64
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image
from playwright.sync_api import sync_playwright

from docs.figures.palette import palette_of
from tests.live.browser.chromium import FLAGS, find_chromium
from tests.live.server import PATIENCE, Server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playwright.sync_api import Page

FILE = Path(__file__).parent / "show-me.gif"
SIZE = (1040, 770)
FRAMES = 5  # a second
WHOLE = 8000  # milliseconds of it, on a machine that does nothing else
LAST = 1500  # for which the last picture stays, at least
WINDOW = "5"  # seconds that the timeline shows
DRAFTS = "3"  # so that it drafts on any machine, whether that pays there or not
BEFORE = 0.5  # seconds before somebody presses the button


@dataclass(frozen=True)
class Picture:
    """A picture that the browser painted.

    Attributes:
        at: in seconds since the epoch.
        png: the file.
    """

    at: float
    png: bytes


def film(page: Page, server: Server) -> list[Picture]:
    """Film the page from the button's press to its end."""
    pictures: list[Picture] = []
    devtools = page.context.new_cdp_session(page)

    def keep(event: dict[str, Any]) -> None:
        pictures.append(Picture(event["metadata"]["timestamp"], base64.b64decode(event["data"])))
        devtools.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    page.goto(server.url)
    page.get_by_text("slot 0: ").wait_for()
    page.get_by_label("Window").select_option(WINDOW)
    devtools.on("Page.screencastFrame", keep)
    devtools.send("Page.startScreencast", {"format": "png", "everyNthFrame": 1})
    page.wait_for_timeout(BEFORE * 1e3)
    page.get_by_role("button", name="Show me").click()
    page.get_by_role("button", name="Go on live").wait_for()
    page.wait_for_timeout(BEFORE * 1e3)
    devtools.send("Page.stopScreencast")
    pictures.append(Picture(pictures[-1].at + 1 / FRAMES, page.screenshot()))  # which may be missing
    return pictures


def sampled(pictures: Sequence[Picture]) -> list[Image.Image]:
    """Return the picture that was to be seen at each moment of the film."""
    frames = []
    count = int((pictures[-1].at - pictures[0].at) * FRAMES)
    for number in range(count + 1):
        at = pictures[0].at + number / FRAMES
        shown = [picture for picture in pictures if picture.at <= at][-1]
        frames.append(Image.open(io.BytesIO(shown.png)).convert("RGB"))
    frames.append(Image.open(io.BytesIO(pictures[-1].png)).convert("RGB"))
    return frames


def write(frames: Sequence[Image.Image], file: Path) -> None:
    """Write a GIF that begins again and again, in one palette for all frames."""
    palette = palette_of(frames[-1])  # which has all that was before it
    first, *others = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    moving = [1000 // FRAMES] * len(others)
    durations = [*moving, max(LAST, WHOLE - sum(moving))]
    first.save(file, save_all=True, append_images=others, duration=durations, loop=0, optimize=True)


def main() -> None:
    """Film it, and write the file."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    with Server("--slots", "3", "--draft-tokens", DRAFTS) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS, chromium_sandbox=False)
        with browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="dark") as context:
            context.set_default_timeout(PATIENCE * 1e3)
            pictures = film(context.new_page(), server)
        browser.close()
    frames = sampled(pictures)
    write(frames, file)
    print(f"{len(frames)} frames of {len(pictures)} pictures, {file.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
