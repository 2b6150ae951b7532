"""The picture of a request's way through the code: a lane for each part, and a box for each function that it passes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from docs.figures.svg import BLUE, FAINT, GREEN, GREY, RED, Picture

LANES = ("connection and HTTP", "the request's actors", "slot manager", "device")
FILLS = (GREY, BLUE, GREEN, RED)
CAPTION = (
    "The first three lanes share the event loop; steps run on the device's own thread.",
    "A hang-up cancels the scope that spawn_app opened, and so all that stands below it.",
)
LEFT, TOP = 14, 74  # pixels
LANE, BOX, HEIGHT, ROW = 232, 214, 30, 52


@dataclass(frozen=True, slots=True)
class Stop:
    """One function on the way.

    Attributes:
        lane, row: where it stands.
        name: `path::function`, as in docs/understand/request.md.
    """

    lane: int
    row: int
    name: str

    @property
    def label(self) -> str:
        """Label of the box."""
        return self.name.partition("::")[2]

    @property
    def middle(self) -> tuple[float, float]:
        """The centre of the box."""
        return LEFT + LANE * self.lane + BOX / 2, TOP + ROW * self.row + HEIGHT / 2


STOPS = (
    Stop(0, 0, "web/http/transport/connection.py::Connection.run"),
    Stop(0, 1, "web/http/transport/task_group.py::ConnectionTaskGroup.spawn_app"),
    Stop(0, 2, "web/http/asgi.py::ScopedConnection.handle_request"),
    Stop(0, 3, "web/bodies/body_parser.py::BodyParser.parse"),
    Stop(1, 3, "actors/engine.py::Engine.open_request"),
    Stop(2, 3, "actors/manager/handle.py::Handle.enqueue"),
    Stop(2, 4, "actors/manager/admission.py::Admission.admit"),
    Stop(1, 4, "actors/manager/handle.py::Handle.hold"),
    Stop(1, 5, "actors/generating/prefill.py::prefill"),
    Stop(2, 5, "actors/manager/slot_manager.py::SlotManager.turn"),
    Stop(3, 5, "runtime/step/step.py::run_step"),
    Stop(3, 6, "runtime/sampling/sampler.py::sample"),
    Stop(2, 6, "actors/manager/settlement.py::Settlement.settle"),
    Stop(1, 6, "actors/generating/decode.py::decode"),
    Stop(1, 7, "actors/generating/output.py::Output.accept"),
    Stop(1, 8, "actors/generating/buffer.py::EventBuffer.put"),
    Stop(0, 8, "web/bodies/event_stream.py::EventStream"),
)


def draw() -> str:
    """The picture as SVG."""
    picture = Picture(
        2 * LEFT + LANE * len(LANES) - (LANE - BOX), TOP + ROW * 9 + 44, "A request's way through the code"
    )
    picture.text(LEFT, 28, "A request's way through the code", size=17)
    bottom = TOP + ROW * 9 - 10
    for lane, name in enumerate(LANES):
        left = LEFT + LANE * lane
        picture.text(left + BOX / 2, 58, name, anchor="middle")
        if lane:
            border = left - (LANE - BOX) / 2
            picture.line(border, 44, border, bottom, color=FAINT, dashed=True)
    for before, after in itertools.pairwise(STOPS):
        picture.arrow(*_between(before, after))
    again = STOPS[13], STOPS[9]  # decode submits its next row to the manager's next turn
    (x1, y1), (x2, y2) = again[0].middle, again[1].middle
    picture.arrow((x1 + 40, y1 - HEIGHT / 2), (x1 + 40, y2 + 22), (x2 - 40, y2 + 22), (x2 - 40, y2 + HEIGHT / 2))
    for stop in STOPS:
        x, y = stop.middle
        picture.box(x - BOX / 2, y - HEIGHT / 2, BOX, HEIGHT, FILLS[stop.lane])
        picture.text(x, y + 4, stop.label, size=11, anchor="middle", code=True)
    picture.text(LEFT, bottom + 22, CAPTION[0], size=12)
    picture.text(LEFT, bottom + 40, CAPTION[1], size=12)
    return picture.svg()


def _between(before: Stop, after: Stop) -> tuple[tuple[float, float], tuple[float, float]]:
    """An arrow's ends, on the edges of both boxes."""
    (x1, y1), (x2, y2) = before.middle, after.middle
    if before.row == after.row:
        side = BOX / 2 if x2 > x1 else -BOX / 2
        return (x1 + side, y1), (x2 - side, y2)
    return (x1, y1 + HEIGHT / 2), (x2, y2 - HEIGHT / 2)
