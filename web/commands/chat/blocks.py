"""Blocks of Markdown: how much of a text is settled while the rest still comes.  Pure.

What stands before the last block does not change any more, whatever follows.  So it can be written for good, and only
the last block is drawn anew with each piece; what that costs does not grow with the answer.
"""

from __future__ import annotations

from itertools import pairwise

from markdown_it import MarkdownIt


class BlockStream:
    """Takes a text in pieces, and gives it back in blocks.

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
