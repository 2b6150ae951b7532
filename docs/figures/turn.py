"""The picture of the slot manager's turn, and of a cancel inside the step that it runs."""

from __future__ import annotations

from docs.figures.svg import BLUE, FAINT, GREEN, GREY, RED, Picture

CALLS = (
    ("drain", "apply what was sent"),
    ("admit", "grant free slots"),
    ("move", "a bounded piece of KV"),
    ("plan", "the rows of the next step"),
    ("run", "one step of the device"),
    ("settle", "commit, and answer each"),
)
RUN = 4  # of these
LAYERS = 6
CANCELLED = 3  # layers were done when the mark was set
LEFT, TOP, BOX, GAP = 14, 56, 126, 10  # pixels
TRACK, LAYER = 232, 108


def draw() -> str:
    """The picture as SVG."""
    picture = Picture(2 * LEFT + 6 * BOX + 5 * GAP, 352, "One turn of the slot manager, and the layers of its step")
    picture.text(LEFT, 28, "One turn of the slot manager: between two steps, all that has come is heard", size=17)
    for index, (call, what) in enumerate(CALLS):
        x = LEFT + index * (BOX + GAP)
        picture.box(x, TOP, BOX, 52, GREEN if index == RUN else BLUE)
        picture.text(x + BOX / 2, TOP + 22, call, size=14, anchor="middle", code=True)
        picture.text(x + BOX / 2, TOP + 41, what, size=9, anchor="middle")
        if index:
            picture.arrow((x - GAP, TOP + 26), (x, TOP + 26))
    right = LEFT + 6 * BOX + 5 * GAP
    picture.arrow(
        (right - BOX / 2, TOP + 52), (right - BOX / 2, TOP + 74), (LEFT + BOX / 2, TOP + 74), (LEFT + BOX / 2, TOP + 52)
    )
    picture.text(
        LEFT + BOX + GAP, TOP + 92, "and two passes of the scheduler, in which actors submit their next rows", size=12
    )
    _step(picture)
    return picture.svg()


def _step(picture: Picture) -> None:
    picture.text(
        LEFT,
        TRACK - 36,
        "Inside run: at each layer boundary the rows of cancelled generations leave the batch",
        size=15,
    )
    left = LEFT + 66
    for row, name in enumerate(("A", "B")):
        y = TRACK + 34 * row
        picture.text(left - 12, y + 19, f"rows of {name}", size=12, anchor="end")
        for layer in range(LAYERS):
            gone = name == "B" and layer > CANCELLED
            fill = GREY if gone else RED if name == "B" and layer == CANCELLED else GREEN
            if not gone:
                picture.box(left + layer * LAYER, y, LAYER - 6, 28, fill)
                picture.text(
                    left + layer * LAYER + (LAYER - 6) / 2, y + 18, f"layer {layer + 1}", size=11, anchor="middle"
                )
    x = left + CANCELLED * LAYER + 30
    picture.line(x, TRACK - 14, x, TRACK + 78, color=FAINT, dashed=True)
    picture.text(x, TRACK + 92, "B is cancelled", size=12, anchor="middle")
    dropped = left + (CANCELLED + 1) * LAYER
    picture.text(dropped + 8, TRACK + 53, "B's rows are dropped here; A's never notice", size=12)
    picture.text(
        LEFT, TRACK + 112, "B's slot is free when this step has ended: settle, then drain, take it back.", size=12
    )
