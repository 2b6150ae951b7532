"""An answer on the screen as it comes: what the model thinks, dimmed, and then its text in Markdown."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Self

from markdown_it import MarkdownIt
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text

from runtime.common.units import counted
from web.commands.client.terminal import harmless

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from web.commands.client.answer import Delta


class BlockStream:
    """Takes a text in Markdown in pieces, and gives it back in blocks.  Pure.

    What stands before the last block does not change any more, whatever follows.  So it can be written for good, and
    only the last block is drawn anew with each piece; what that costs does not grow with the answer.

    Attributes:
        rest: the last block, as far as it has come.
    """

    def __init__(self) -> None:
        self.rest = ""
        self._parser = MarkdownIt().enable("table")

    def feed(self, text: str) -> list[str]:
        """Return the blocks that are settled with this piece."""
        self.rest += text
        if "\n" not in text:
            return []
        tokens = [token for token in self._parser.parse(self.rest) if token.level == 0 and token.nesting >= 0]
        starts = [0, *(token.map[0] for token in tokens[1:] if token.map)]
        lines = self.rest.split("\n")
        blocks = ["\n".join(lines[start:end]) for start, end in pairwise(starts)]
        self.rest = "\n".join(lines[starts[-1] :])
        return blocks

    def end(self) -> str:
        """Return the last block; nothing is left."""
        rest, self.rest = self.rest, ""
        return rest


FRAME_SECONDS = 0.06  # between two drawings of what still changes
THOUGHT_LINES = 6
SPARE_LINES = 2  # of the screen, that the last block leaves


class Tail:
    """The last lines of something: what is longer than the screen cannot be drawn anew."""

    def __init__(self, what: RenderableType, height: int) -> None:
        self._what = what
        self._height = height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw them."""
        for line in console.render_lines(self._what, options.update(height=None), pad=False)[-self._height :]:
            yield from line
            yield Segment.line()


class AnswerView:
    """Draws one answer, in a scope; at its end all that came is on the screen for good.

    Args:
        console: to draw on.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(Text("…", style="dim"), console=console, auto_refresh=False, transient=True)
        self._blocks = BlockStream()
        self._thought = ""
        self._thinks = False
        self._began = time.monotonic()
        self._drawn = 0.0
        self._has_blocks = False

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._live.start(refresh=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Write for good what is left, and give the cursor back."""
        try:
            self._live.update(Text(""), refresh=True)
        finally:
            self._live.stop()
        self._fold()
        self._print(self._blocks.end())

    async def show(self, delta: Delta) -> None:
        """Draw a piece."""
        if delta.reasoning:
            self._thinks = True
            self._thought += harmless(delta.reasoning)
        if delta.text:
            self._fold()
            for block in self._blocks.feed(harmless(delta.text)):
                self._print(block)
        now = time.monotonic()
        if now - self._drawn >= FRAME_SECONDS:
            self._drawn = now
            self._live.update(self._changing(), refresh=True)

    def _changing(self) -> RenderableType:
        """Return what is drawn anew each time."""
        height = max(self._console.height - SPARE_LINES, 1)
        if self._thinks:
            return Tail(Text(self._thought.strip(), style="dim italic"), min(THOUGHT_LINES, height))
        if not self._blocks.rest.strip():
            return Text("")
        return Tail(self._markdown(self._blocks.rest), height)

    def _fold(self) -> None:
        """Put a line in the place of what the model thought."""
        if self._thinks:
            self._thinks = False
            seconds = time.monotonic() - self._began
            self._console.print(
                Text(f"thought for {seconds:.1f} s, {counted(len(self._thought.split()), 'word')}", style="dim italic")
            )

    def _print(self, block: str) -> None:
        """Write a block for good."""
        if not block.strip():
            return
        if self._has_blocks:
            self._console.print()
        self._has_blocks = True
        self._console.print(self._markdown(block))

    def _markdown(self, text: str) -> Markdown:
        return Markdown(text.strip("\n"), hyperlinks=False)  # a link's address is to be seen
