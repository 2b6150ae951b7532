"""Ring buffers for KV of layers with a sliding window, and the lengths from which a sequence can go on with them.

Such a layer has a ring of `window + slack` positions for each slot: position p lies at p modulo that.  So a row is gone
once one was written that far behind it, whether that row was committed, cancelled, or of a draft that was rejected.
With rows up to `written`, a ring still has those from `written - window - slack` on.  A row at position n sees the
`window - 1` before it, so that a sequence can go on from n only if n - (window - 1) is not before that.  The least such
n is `written - slack - 1`, whatever the window: that is the *least length* of a slot.

A step writes at most `slack` rows of a sequence, from its length n on: what it can go on from afterwards is at least
n + rows - slack - 1, which is less than n.  So no step, cancelled or not, and no rejected draft takes away from a slot
what it needs to go on from the length that it had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Positions.  So far back a prompt may differ from what a slot holds and still go on from there.  With a window of 1024,
# as in Gemma 3, a slot of 32,768 tokens keeps a sixteenth in these layers; half the slack would make that a twentieth.
SLACK = 1024


@dataclass(frozen=True, slots=True)
class Rings:
    """The rings of a model, all with the same slack.

    Attributes:
        windows: per layer, its window where it has a ring; None where it keeps all positions.
        slack: positions of each ring beyond its window.
        pieces: per layer, of a token's KV, as `ModelConfig.kv_pieces`; empty for one each.
    """

    windows: tuple[int | None, ...]
    slack: int
    pieces: tuple[int, ...] = ()

    @property
    def max_rows(self) -> int:
        """The most rows of one sequence in a step.

        Half of what would do: so a sequence that was read to some length can still be copied up to there when one step
        more has run over it.
        """
        return max(1, self.slack // 2)

    @property
    def widest(self) -> int:
        """The largest window."""
        return max(window for window in self.windows if window is not None)

    @property
    def narrowest(self) -> int:
        """The smallest window."""
        return min(window for window in self.windows if window is not None)

    @property
    def has_full_layers(self) -> bool:
        """Return whether any layer keeps all positions."""
        return None in self.windows

    @property
    def full_pieces(self) -> list[int]:
        """The numbers of a token's pieces that are of layers without a ring."""
        counts = self.pieces or (1,) * len(self.windows)
        owners = [window for window, count in zip(self.windows, counts, strict=True) for _ in range(count)]
        return [piece for piece, window in enumerate(owners) if window is None]

    def capacity(self, layer: int) -> int | None:
        """Return the positions of a layer's ring; None where it has none."""
        window = self.windows[layer]
        return None if window is None else window + self.slack

    # --- lengths ------------------------------------------------------------------------------------------------------

    def least_length(self, written: int) -> int:
        """Return the least length, above 0, that a slot can go on from whose rows up to `written` were written."""
        return written - self.slack - 1 if written > self.narrowest + self.slack else 0

    def least_length_from(self, first: int, written: int) -> int:
        """Return the same of a slot whose rings have been given the positions from `first` to `written` only."""
        return max(first + self.widest - 1 if first else 0, self.least_length(written))

    def first_needed(self, length: int) -> int:
        """Return the first position that some ring must still have for a sequence to go on from `length`."""
        return max(0, length - self.widest + 1)

    def first_kept(self, least: int) -> int:
        """Return the first position from which on every ring of a slot with that least length has all rows."""
        return max(0, least - self.narrowest + 1) if least else 0


def plan_rings(windows: Sequence[int | None], context: int, slack: int = SLACK) -> Rings | None:
    """Choose the layers that have a ring: those with a window, where that takes less than the context.

    Args:
        windows: per layer, how many positions a row sees, itself included; None for all before it.
        context: positions of a slot.
        slack: positions of a ring beyond its window.

    Returns:
        None where every layer keeps all positions.
    """
    chosen = tuple(None if window is None or window + slack >= context else window for window in windows)
    return Rings(chosen, slack) if any(window is not None for window in chosen) else None
