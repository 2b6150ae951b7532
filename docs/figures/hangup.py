"""The picture of a hang-up: what happens between the closed socket and the free slot.

The figures are one run's of `cede doctor --self-test` (its check "hang-up in prefill"), 2026-11-22, on two cores of an
Intel Xeon with the embedded model of five layers, other programs beside it.
"""

from __future__ import annotations

from docs.figures.svg import BLUE, FAINT, GREEN, GREY, RED, Picture

CLOSED, NOTICED, LAST_LAYER, FREE = 0.0, 0.19, 0.52, 0.67  # ms from the closed socket
KEPT, WASTED = 128, 64  # tokens of the prompt
LAYER_ENDS = (-0.17, 0.06, LAST_LAYER)  # of the step in flight; only the last was measured, by the cancel's receipt

LEFT, RIGHT, TOP = 130, 790, 78  # of the drawing, in pixels
ZERO, MS = 330, 520  # where 0 ms is, and pixels of a millisecond
ROW = 46
ROWS = ("client", "its request", "device", "its slot")


def draw() -> str:
    """The picture as SVG."""
    picture = Picture(820, 344, "A hang-up: the socket is closed, the last layer ends, the slot is free")
    picture.text(20, 30, "A client hangs up in the middle of its prompt", size=17)
    picture.text(20, 52, f"{KEPT} tokens of the prompt stay in the slot for its retry; {WASTED} in flight are dropped")
    for row, name in enumerate(ROWS):
        picture.text(LEFT - 14, TOP + ROW * row + 27, name, anchor="end")
    _bar(picture, 0, LEFT, _at(CLOSED), "reads the stream", BLUE)
    _bar(picture, 1, LEFT, _at(NOTICED), "its actors wait for the step", BLUE)
    _bar(picture, 1, _at(NOTICED), _at(FREE), "cancelled, waits for its slot", RED)
    starts = (LEFT, *map(_at, LAYER_ENDS[:-1]))
    for number, (start, end) in enumerate(zip(starts, LAYER_ENDS, strict=True), 1):
        _bar(picture, 2, start, _at(end), f"layer {number}", RED if end == LAST_LAYER else GREEN)
    _bar(picture, 2, _at(FREE), RIGHT, "the next step", GREY)
    _bar(picture, 3, LEFT, _at(FREE), "held", BLUE)
    _bar(picture, 3, _at(FREE), RIGHT, "the next request", GREEN)
    _moment(picture, CLOSED, "socket closed")
    _moment(picture, NOTICED, "noticed")
    _moment(picture, LAST_LAYER, "last layer", shift=-6)
    _moment(picture, FREE, "slot free", shift=34)
    picture.text(20, 330, "cede doctor --self-test, embedded model, two cores of an Intel Xeon, 2026-11-22", size=11)
    return picture.svg()


def _at(ms: float) -> float:
    return ZERO + MS * ms


def _bar(picture: Picture, row: int, start: float, end: float, label: str, fill: str) -> None:
    picture.box(start, TOP + ROW * row + 8, end - start, 30, fill)
    picture.text((start + end) / 2, TOP + ROW * row + 27, label, size=12, anchor="middle")


def _moment(picture: Picture, ms: float, what: str, shift: float = 0) -> None:
    bottom = TOP + ROW * len(ROWS)
    picture.line(_at(ms), TOP, _at(ms), bottom + 8, color=FAINT, dashed=True)
    picture.text(_at(ms) + shift, bottom + 24, what, anchor="middle", size=12)
    picture.text(_at(ms) + shift, bottom + 41, f"{ms:g} ms", anchor="middle", size=12)
