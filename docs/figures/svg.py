"""The few shapes that the pictures of the documentation are made of, as SVG text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

INK, FAINT, PAPER = "#1f2933", "#7b8794", "#ffffff"
BLUE, GREEN, RED, GREY = "#dbeafe", "#d1fae5", "#fee2e2", "#eef0f3"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
CODE = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
DARK = {
    INK: "#e6edf3",
    FAINT: "#7d8590",
    PAPER: "#0d1117",
    BLUE: "#16325c",
    GREEN: "#123d2d",
    RED: "#4a1d20",
    GREY: "#21262d",
}
"""What stands for each colour on a dark page."""
ARROW = "M 0 0 L 8 4 L 0 8 z"


@dataclass
class Picture:
    """A drawing of `width` by `height` pixels, with its origin in the upper left corner.

    Attributes:
        title: what a screen reader says.
        shapes: the SVG elements so far, from the back to the front.
    """

    width: int
    height: int
    title: str
    shapes: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, fill: str, edge: str = INK) -> None:
        """Draw a rectangle with round corners."""
        where = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self.shapes.append(f'<rect {where} rx="4" fill="{fill}" stroke="{edge}"/>')

    def text(self, x: float, y: float, line: str, *, size: int = 13, anchor: str = "start", code: bool = False) -> None:
        """Write one line; `y` is its base line, and `anchor` is start, middle or end."""
        font = f' font-family="{CODE}"' if code else ""
        where = f'x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
        self.shapes.append(f"<text {where}{font}>{escape(line)}</text>")

    def line(self, x1: float, y1: float, x2: float, y2: float, *, color: str = INK, dashed: bool = False) -> None:
        """Draw a straight line."""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.shapes.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{color}"{dash}/>')

    def arrow(self, *points: tuple[float, float]) -> None:
        """Draw a line through `points` with a head at its end."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.shapes.append(f'<polyline points="{path}" fill="none" stroke="{INK}" marker-end="url(#head)"/>')

    def svg(self) -> str:
        """The picture as a file's text; its white background makes it readable on a dark page, too."""
        head = f'<path d="{ARROW}" fill="{INK}"/>'
        marker = f'<marker id="head" markerWidth="8" markerHeight="8" refX="8" refY="4" orient="auto">{head}</marker>'
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" fill="{INK}" role="img">',
            f"<title>{escape(self.title)}</title>",
            f"<defs>{marker}</defs>",
            f'<rect width="{self.width}" height="{self.height}" fill="{PAPER}"/>',
            *self.shapes,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def darkened(svg: str) -> str:
    """The same picture for a dark page."""
    return re.sub("#[0-9a-f]{6}", lambda found: DARK[found[0]], svg)
