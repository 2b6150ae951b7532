"""Take the pictures of the page, with Playwright, Pillow and a Chromium: `python -m docs.figures.screenshots [FOLDER]`.

They show a server of its own, a few clients that this plays, and the page's own *Show me*, in both themes.  No test
compares them, for no two runs are the same.  With a folder it writes the whole page there, at three widths; without
one, the card for links, too, which has to be a PNG.
"""

from __future__ import annotations

import io
import json
import random
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from PIL import Image
from playwright.sync_api import sync_playwright

from docs.figures.brand import CARD, draw_card
from docs.figures.palette import palette_of
from tests.live.browser.chromium import FLAGS, find_chromium
from tests.live.server import COMPLETIONS, PATIENCE, Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FOLDER = Path(__file__).parent
THEMES: tuple[Literal["dark", "light"], ...] = ("dark", "light")
CLIENTS = 4
README = (1280, 900)
WIDTHS = (1440, 820, 390)
HEIGHT = 1000
SECONDS = 9.0  # of traffic before the picture


def play(server: Server, seed: int, ended: threading.Event) -> None:
    """Ask again and again, with prompts of many lengths, and often leave before the end."""
    dice = random.Random(seed)
    while not ended.is_set():
        prompt = [10 + dice.randrange(200) for _ in range(dice.choice([40, 200, 900]))]
        body = {"prompt": prompt, "max_tokens": dice.choice([200, 400]), "stream": True, "ignore_eos": True}
        connection = HTTPConnection(*server.address, timeout=PATIENCE)
        connection.request("POST", COMPLETIONS, json.dumps(body), {"content-type": "application/json"})
        answer, patience = connection.getresponse(), dice.choice([20, 60, 1000])
        while patience and answer.readline():
            patience -= 1
        connection.close()
        ended.wait(dice.random())


def look(page: Page, server: Server) -> None:
    """Open the page, and let it show what it is about."""
    page.goto(server.url)
    page.get_by_text("slot 0: ").wait_for()
    ended = threading.Event()
    clients = [threading.Thread(target=play, args=(server, seed, ended)) for seed in range(CLIENTS)]
    for client in clients:
        client.start()
    page.wait_for_timeout(SECONDS * 1e3)
    ended.set()
    for client in clients:
        client.join()
    page.get_by_role("button", name="Show me").click()
    page.locator(".told li").filter(has_text="kept for a retry").nth(1).wait_for()
    page.get_by_role("button", name="Go on live").wait_for()


def keep(picture: bytes, file: Path) -> None:
    """Write a picture, in fewer colours."""
    painted = Image.open(io.BytesIO(picture)).convert("RGB")
    painted.quantize(palette=palette_of(painted), dither=Image.Dither.NONE).save(file, optimize=True)


def take_card(browser: Browser) -> None:
    """Write the card."""
    with browser.new_page(viewport={"width": CARD[0], "height": CARD[1]}) as page:
        page.set_content(f'<body style="margin: 0">{draw_card()}</body>')
        keep(page.screenshot(), FOLDER / "social-card.png")


def main() -> None:
    """Take them all."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    sizes = [README] if folder is None else [(width, HEIGHT) for width in WIDTHS]
    with Server("--slots", "4") as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS, chromium_sandbox=False)
        if folder is None:
            take_card(browser)
        for theme in THEMES:
            for width, height in sizes:
                with browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme) as context:
                    page = context.new_page()
                    look(page, server)
                    name = f"page-{theme}.png" if folder is None else f"{width}-{theme}.png"
                    keep(page.screenshot(full_page=folder is not None), (folder or FOLDER) / name)
        browser.close()


if __name__ == "__main__":
    main()
