"""The logo, and the card that is shown where somebody links to cede.

Three slots: the request in the middle one is cut short, and the rest of the slot is free at once; its neighbours go on.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from docs.figures.svg import FONT

NEIGHBOUR, CUT, FREE = "#3b82f6", "#ef4444", "#10b981"  # all three, on white as well as on black
NIGHT, DAY = "#0d1117", "#e6edf3"
CARD = (1280, 640)  # pixels, as GitHub wants it
PROMISE = "An LLM inference server that gives the accelerator back the moment nobody is listening"


def mark() -> str:
    """The three slots, in a square of 64."""
    bars = "".join(f'<rect x="4" y="{y}" width="56" height="12" rx="6" fill="{NEIGHBOUR}"/>' for y in (6, 46))
    cut = f'<rect x="4" y="26" width="24" height="12" rx="6" fill="{CUT}"/>'
    free = f'<rect x="35" y="27.5" width="23.5" height="9" rx="4.5" fill="none" stroke="{FREE}" stroke-width="3"/>'
    return bars + cut + free


def draw_logo() -> str:
    """The mark and the name, without a background: for light pages and dark ones."""
    name = f'<text x="78" y="48" font-size="50" font-weight="700" fill="{NEIGHBOUR}">cede</text>'
    return _svg(206, 64, f"{mark()}{name}")


def draw_card() -> str:
    """The card; `docs.figures.screenshots` makes a PNG of it."""
    begins, ends = PROMISE.split(" the accelerator")
    lines = (f"{begins} the accelerator", ends.strip())
    said = "".join(
        f'<text x="120" y="{470 + 52 * number}" font-size="38" fill="{DAY}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    name = f'<text x="430" y="300" font-size="200" font-weight="700" fill="{DAY}">cede</text>'
    marked = f'<g transform="translate(108 100) scale(4.2)">{mark()}</g>'
    return _svg(*CARD, f'<rect width="100%" height="100%" fill="{NIGHT}"/>{marked}{name}{said}')


def _svg(width: int, height: int, inside: str) -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" role="img">'
    return f"{head}\n<title>cede</title>\n{inside}\n</svg>\n"
