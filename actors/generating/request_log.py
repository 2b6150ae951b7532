"""One line in the log for each request that ended, whichever way it did: in words, and its figures beside them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trio

from actors.core.generation import Finished, FinishReason
from actors.core.receipts import CancelReason
from runtime.common.log_text import literal
from runtime.common.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from actors.core.account import Account
    from actors.core.generation import Failed, GenerationRequest

logger = logging.getLogger("cede.engine")

HANG_UPS = (
    CancelReason.DISCONNECT,
    CancelReason.STALLED_READER,
    CancelReason.PREFILL_FINISHED,
    CancelReason.ABANDONED,
)
CLIENT_CLOSED_REQUEST = 499  # nginx's
SHOWN_TOKENS, SHOWN_CHARACTERS = 1024, 1500  # of a prompt, and of an answer, where they are logged; half from each end
LEFT_OUT = " […] "
LOGGED = SHOWN_CHARACTERS + len(LEFT_OUT)


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds that a generation was in each part of its life; 0 where it did not get."""

    queued: float
    prefill: float
    decode: float


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a generation.

    Attributes:
        last: its last event.
        tokens: that it generated.
        account: of its work.
        seconds: that it took.
        cancel: why it was cancelled; None if it was not.
    """

    last: Finished | Failed
    tokens: int
    account: Account
    seconds: Seconds
    cancel: CancelReason | None = None


class RequestLog:
    """Remembers how each generation of a request ended, and says so once all have.

    Args:
        asked: the request.
        model: its name.
        spell: turns tokens into text, for a log that is to have prompts and answers; None for one that has not.
    """

    def __init__(
        self, asked: GenerationRequest, model: str, spell: Callable[[Sequence[int]], str] | None = None
    ) -> None:
        self._asked = asked
        self._model = model
        self._spell = spell
        self._began = trio.current_time()
        self._endings: list[Ending] = []
        self._sequences: list[tuple[int, Sequence[int]]] = []

    def add(self, ending: Ending, sequence: Sequence[int] = ()) -> None:
        """Take the end of one generation, and its prompt with its output."""
        self._endings.append(ending)
        if self._spell is not None:
            self._sequences.append((ending.last.index, sequence))

    def write(self) -> None:
        """Log the line, and where that is wanted one for each prompt and its answer."""
        figures = self._figures(trio.current_time() - self._began)
        logger.info("%s: %s", self._asked.id, _in_words(figures), extra=figures)
        for index, sequence in self._sequences:
            self._write_text(index, sequence)

    def _write_text(self, index: int, sequence: Sequence[int]) -> None:
        assert self._spell is not None
        end = len(self._asked.prompts[index])
        prompt, answer = shortened(sequence[:end], self._spell), shortened(sequence[end:], self._spell)
        logger.info(
            "%s/%d: prompt %s, answer %s",
            self._asked.id,
            index,
            literal(prompt, LOGGED),
            literal(answer, LOGGED),
            extra={"request_id": self._asked.id, "index": index, "prompt_text": prompt, "answer_text": answer},
        )

    def _figures(self, seconds: float) -> dict[str, Any]:
        """Add up the generations; times are the longest of any.  What there is none of is None.

        The rate is that of decoding, all generations together.  A generation's first token comes with the end of its
        prompt, so that it takes no time of decoding.
        """
        asked, ends = self._asked, self._endings
        decode = max((end.seconds.decode for end in ends), default=0.0)
        decoded = sum(max(0, end.tokens - 1) for end in ends)
        cancelled = [end for end in ends if end.cancel is not None]
        return {
            "request_id": asked.id,
            "status": _status(ends),
            "ended": _each_once(_how(end) for end in ends),
            "cancel_reason": _each_once(end.cancel or "" for end in cancelled) or None,
            "cancel_phase": _each_once(end.account.phase for end in cancelled) or None,
            "prompt_tokens": sum(map(len, asked.prompts)),
            "cached_tokens": sum(end.account.cached for end in ends),
            "generated_tokens": sum(end.tokens for end in ends),
            "drafted_tokens": sum(end.account.drafted for end in ends),
            "accepted_tokens": sum(end.account.accepted for end in ends),
            "seconds": round(seconds, 6),
            "queued_seconds": round(max((end.seconds.queued for end in ends), default=0.0), 6),
            "prefill_seconds": round(max((end.seconds.prefill for end in ends), default=0.0), 6),
            "decode_seconds": round(decode, 6),
            "tokens_per_second": round(decoded / decode, 3) if decode else 0.0,
            "key": asked.owner,
            "model": self._model,
        }


def shortened(tokens: Sequence[int], spell: Callable[[Sequence[int]], str]) -> str:
    """Return the text of tokens; of a long one the beginning and the end, however long it is."""
    half = SHOWN_CHARACTERS // 2
    if len(tokens) > SHOWN_TOKENS:
        first, last = spell(tokens[: SHOWN_TOKENS // 2]), spell(tokens[-SHOWN_TOKENS // 2 :])
        return first[:half] + LEFT_OUT + last[-half:]
    text = spell(tokens)
    return text if len(text) <= SHOWN_CHARACTERS else text[:half] + LEFT_OUT + text[-half:]


def _in_words(figures: dict[str, Any]) -> str:
    """`200 stop, 12 prompt tokens (4 cached), 30 tokens in 1.50 s (0.10 queued, 0.20 prefill), 24.1 tokens/s`."""
    words = f"{figures['status']} {figures['ended']}"
    if figures["cancel_reason"] is not None:
        words += f" ({figures['cancel_reason']} in {figures['cancel_phase']})"
    words += f", {counted(figures['prompt_tokens'], 'prompt token')} ({figures['cached_tokens']} cached)"
    words += f", {counted(figures['generated_tokens'], 'token')}"
    if figures["drafted_tokens"]:
        words += f" ({figures['accepted_tokens']} of {figures['drafted_tokens']} drafts)"
    words += f" in {figures['seconds']:.2f} s"
    words += f" ({figures['queued_seconds']:.2f} queued, {figures['prefill_seconds']:.2f} prefill)"
    words += f", {figures['tokens_per_second']:.1f} tokens/s"
    return words if figures["key"] is None else f"{words}, key {figures['key']}"


def _how(end: Ending) -> str:
    return str(end.last.reason) if isinstance(end.last, Finished) else end.last.error.code or "failed"


def _each_once(words: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(map(str, words)))


def _status(ends: list[Ending]) -> int:
    """The status as nginx would log it."""
    failed = [end.last for end in ends if not isinstance(end.last, Finished)]
    if any(end.cancel in HANG_UPS for end in ends if _how(end) == FinishReason.CANCELLED):
        return CLIENT_CLOSED_REQUEST
    return failed[0].error.status if failed else 200
