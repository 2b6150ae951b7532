"""Mark of where a request's output begins, to be seen when the request goes on at another worker.

Dynamo sends the other worker the prompt with the output so far behind it, and nothing says where one ends.  Penalties
need to know.  So the first token of such a request's output is told of by a number that is no token's: its own, and as
many more as the vocabulary has tokens.  The front door counts it like any other, and hands it to the next worker as it
is.  It could not spell it, so the worker spells all of that output itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COUNTS_OUTPUT = ("presence_penalty", "frequency_penalty")
"""What depends on where the prompt ends and the output begins."""


def is_marked(asked: Mapping[str, Any]) -> bool:
    """Return whether the output of what the front door asks has a mark.

    One of several choices has none: Dynamo moves no such request.
    """
    sampling = asked.get("sampling_options") or {}
    return any(sampling.get(name) for name in COUNTS_OUTPUT) and (sampling.get("n") or 1) == 1


def mark(token_id: int, vocab_size: int) -> int:
    """The number that stands for the first token of an output."""
    return token_id + vocab_size


def without_mark(token_ids: Sequence[int], vocab_size: int) -> tuple[list[int], int]:
    """The tokens that a request has so far, and how many at their end are output.

    >>> without_mark([5, 6, 107, 8], vocab_size=100)
    ([5, 6, 7, 8], 2)
    """
    plain = list(token_ids)
    for position, token_id in enumerate(plain):
        if token_id >= vocab_size:
            plain[position] -= vocab_size
            return plain, len(plain) - position
    return plain, 0
