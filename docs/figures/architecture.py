"""The picture of the architecture: a band for each layer, and what a request, its tokens and a hang-up pass."""

from __future__ import annotations

from docs.figures.svg import BLUE, FAINT, GREEN, GREY, PAPER, RED, Picture

BANDS = (
    ("clients", "", PAPER, ("OpenAI's", "Anthropic's, Ollama's", "agents, editors", "page, chat, top")),
    ("web", "HTTP, on Trio", GREY, ("HTTP/1.1, HTTP/2", "a scope per request", "APIs", "receipts, metrics")),
    ("actors", "one event loop", BLUE, ("queue, preemption", "prefill, draft, decode", "slot manager", "prefix cache")),
    ("runtime", "PyTorch", GREEN, ("checkpoints, GGUF", "models, sampling", "steps", "KV: slots, RAM, disk")),
    ("device", "a thread of its own", RED, ("C++ on CPUs", "CUDA", "MPS", "several, in parallel")),
)
"""Each with its name, what it runs on, its colour, and its parts.  Each layer imports only those below it."""

WAYS = (("request", 0, 4), ("tokens", 4, 0), ("hang-up", 0, 3))
"""From which band to which."""

LEFT, TOP, WIDTH = 20, 58, 880  # pixels
BAND, ROW = 62, 82
NAMES, PART, GAP = 128, 138, 8
ARROWS = LEFT + NAMES + 4 * (PART + GAP) + 30  # where the first is


def draw() -> str:
    """The picture as SVG."""
    picture = Picture(2 * LEFT + WIDTH, TOP + ROW * len(BANDS) + 14, "The architecture of cede")
    picture.text(LEFT, 32, "A request goes down, its tokens come up, and a hang-up stops exactly its own work", size=17)
    for row, (name, runs_on, fill, parts) in enumerate(BANDS):
        top = TOP + ROW * row
        picture.box(LEFT, top, WIDTH, BAND, fill, FAINT)
        picture.text(LEFT + 14, top + 28, name, size=16)
        picture.text(LEFT + 14, top + 47, runs_on, size=11)
        for number, part in enumerate(parts):
            left = LEFT + NAMES + number * (PART + GAP)
            picture.box(left, top + 14, PART, BAND - 28, PAPER, FAINT)
            picture.text(left + PART / 2, top + 35, part, size=12, anchor="middle")
    for number, (what, start, end) in enumerate(WAYS):
        x = ARROWS + number * 48
        picture.text(x, TOP + 26, what, size=11, anchor="middle")
        picture.arrow((x, _middle(start)), (x, _middle(end)))
    return picture.svg()


def _middle(row: int) -> float:
    """Where arrows begin and end in a band; in the first one, below their names."""
    return TOP + ROW * row + (BAND / 2 if row else 38)
