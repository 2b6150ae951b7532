"""Buffers for the states of sequences in a loop without an engine; the engine's are named by its slot table.

For each model's buffers it is remembered which has the state of which slot's first tokens.  Who has the same state
again, or needs room, takes the one that was not used for longest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.kv.states import StateBuffers
    from runtime.step.step import Segment

_Uses: TypeAlias = "dict[int, tuple[int, int] | None]"  # a slot and a length, by buffers; what was used last at the end

MOST_DRAFTS = 8  # behind each of which a state is left; what has more is scored, and not gone on from
_uses: WeakKeyDictionary[StateBuffers, _Uses] = WeakKeyDictionary()


def with_states(buffers: StateBuffers | None, segments: Sequence[Segment], spares: int = 0) -> list[Segment]:
    """Return the same segments with buffers: of the state that each goes on from, and of those that it leaves.

    These are behind its last row, and behind each from the last certain one on where it verifies few drafts.  The next
    rows of a burst have theirs.

    Args:
        buffers: the model's; None for one without states.
        segments: of a step.
        spares: buffers besides, for a burst that begins with it.

    Raises:
        KeyError: a segment does not go on from where an earlier one has left a state.
    """
    if buffers is None:
        return list(segments)
    uses = _uses_of(buffers)
    named = list(segments)
    new = [index for index, segment in enumerate(segments) if not segment.next_states]
    states = [_found(uses, one.slot, one.start) if one.start else None for one in map(named.__getitem__, new)]
    for index, state in zip(new, states, strict=True):
        segment = named[index]
        rows, drafts = len(segment.token_ids), len(segment.drafts)
        ends = range(rows - drafts if drafts <= MOST_DRAFTS else rows, rows + 1)
        following = tuple((end, _taken(uses, segment.slot, segment.start + end)) for end in ends)
        spare = tuple(_taken(uses, segment.slot, -1) for _ in range(spares))
        named[index] = replace(segment, state=state, next_states=following, spare_states=spare)
    return named


def copy_state(buffers: StateBuffers | None, source: int, target: int, length: int) -> None:
    """Give a slot the state that another has at a length, by way of host memory; a model without states has none."""
    if buffers is not None:
        uses = _uses_of(buffers)
        buffers.load(_taken(uses, target, length), buffers.save(_found(uses, source, length)))


def _uses_of(buffers: StateBuffers) -> _Uses:
    return _uses.setdefault(buffers, dict.fromkeys(range(buffers.count)))


def _found(uses: _Uses, slot: int, length: int) -> int:
    """Return the buffer that has this state; it is the last to be taken for another."""
    for buffer, use in reversed(uses.items()):
        if use == (slot, length):
            uses[buffer] = uses.pop(buffer)
            return buffer
    raise KeyError(f"slot {slot} has no state behind {length} tokens")


def _taken(uses: _Uses, slot: int, length: int) -> int:
    """Return the buffer that was not used for longest, from now on for this state."""
    buffer = next(iter(uses))
    del uses[buffer]
    uses[buffer] = (slot, length)
    return buffer
