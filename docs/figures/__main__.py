"""Draw the pictures of the documentation: `python -m docs.figures` writes them beside this file."""

from __future__ import annotations

from pathlib import Path

from docs.figures import architecture, brand, hangup, request, turn
from docs.figures.svg import darkened

FOLDER = Path(__file__).parent
PICTURES = {
    "architecture.svg": architecture.draw,
    "architecture-dark.svg": lambda: darkened(architecture.draw()),
    "hangup.svg": hangup.draw,
    "hangup-dark.svg": lambda: darkened(hangup.draw()),
    "logo.svg": brand.draw_logo,
    "request.svg": request.draw,
    "turn.svg": turn.draw,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw())
