"""Streams to be tested, and what was written to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actors.core.generation import FinishReason
from tests.fakes.engine import events_of, finished
from web.generation.openai_format.answers.formatter import CompletionFormatter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.core.generation import Event, Finished
    from actors.core.receipts import CancelReason
    from web.generation.asked import Asked
    from web.generation.openai_format.answers.format import ResponseOptions


def written(parsed: Asked[ResponseOptions], *events: Any) -> list[Any]:  # noqa: ANN401
    """Return the chunks that these events become."""
    writer = CompletionFormatter(parsed.options)
    chunks = chunks_of(writer, events)
    return events_of(chunks + writer.closing() if writer.finished else chunks)


def chunks_of(writer: CompletionFormatter, events: Iterable[Event]) -> bytes:
    """Return the bytes that these events become."""
    return b"".join(piece for event in events for piece in writer.write(event))


def choices(chunks: list[Any]) -> list[Any]:
    """Return the first choice of each chunk."""
    return [chunk["choices"][0] for chunk in chunks if chunk != "[DONE]"]


def cut_short(why: CancelReason) -> Finished:
    """Return the event that ends a generation which was cancelled."""
    return replace(finished(reason=FinishReason.CANCELLED), cancelled=why)
