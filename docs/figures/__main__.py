"""Draw the pictures of the documentation: `python -m docs.figures` writes them beside this file."""

from __future__ import annotations

from pathlib import Path

from docs.figures import hangup, request, turn

FOLDER = Path(__file__).parent
PICTURES = {"hangup.svg": hangup.draw, "request.svg": request.draw, "turn.svg": turn.draw}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw())
