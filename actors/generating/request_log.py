"""One line in the log for each request that ended, whichever way it did."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from actors.core.generation import Failed, Finished, FinishReason
from actors.core.receipts import CancelReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Event, GenerationRequest

logger = logging.getLogger("cede.engine")

HANG_UPS = (CancelReason.DISCONNECT, CancelReason.STALLED_READER)
CLIENT_CLOSED_REQUEST = 499  # nginx's


class RequestLog:
    """Remembers how each generation of a request ended, and says so once all have."""

    def __init__(self, asked: GenerationRequest) -> None:
        self._asked = asked
        self._began = trio.current_time()
        self._ends: list[Finished | Failed] = []

    def add(self, event: Event) -> None:
        """Take one event of the request's."""
        if isinstance(event, Finished | Failed):
            self._ends.append(event)

    def write(self, cancel: CancelReason | None) -> None:
        """Log the line; `cancel` is the reason of a cancel, which counts where a generation was cancelled."""
        logger.info("%s", _line(self._asked, self._ends, trio.current_time() - self._began, cancel))


def _line(
    asked: GenerationRequest, ends: Sequence[Finished | Failed], seconds: float, cancel: CancelReason | None
) -> str:
    """`cmpl-1: 200 stop, 12 prompt tokens (4 cached), 30 tokens in 1.50 s, 24.1 tokens/s`.

    The rate is that of decoding, all generations of the request together.
    """
    finished = [end for end in ends if isinstance(end, Finished)]
    longest = max((end.timings.predicted_ms for end in finished), default=0.0)
    # A generation's first token comes with the end of its prompt, so that it takes no time of decoding.
    decoded = sum(max(0, end.completion_tokens - 1) for end in finished)
    cached, tokens = sum(end.cached_tokens for end in finished), sum(end.completion_tokens for end in finished)
    rate = decoded / longest * 1e3 if longest else 0.0
    return (
        f"{asked.id}: {_outcome(ends, cancel)}, {sum(map(len, asked.prompts))} prompt tokens "
        f"({cached} cached), {tokens} tokens in {seconds:.2f} s, {rate:.1f} tokens/s"
    )


def _outcome(ends: Sequence[Finished | Failed], cancel: CancelReason | None) -> str:
    """The status as nginx would log it, and how the generations ended, each way once."""
    failed = [end.error for end in ends if isinstance(end, Failed)]
    reasons = [end.reason for end in ends if isinstance(end, Finished)]
    ways = " ".join(dict.fromkeys([*map(str, reasons), *(error.code or "failed" for error in failed)]))
    status = failed[0].status if failed else 200
    if FinishReason.CANCELLED in reasons and cancel is not None:
        ways += f" ({cancel})"
        if cancel in HANG_UPS:
            status = CLIENT_CLOSED_REQUEST
    return f"{status} {ways}"
