"""Draw the pictures of the documentation: `python -m docs.figures` writes them beside this file."""

from __future__ import annotations

from pathlib import Path

from docs.figures.hangup import draw as draw_hangup

FOLDER = Path(__file__).parent
PICTURES = {"hangup.svg": draw_hangup}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw())
