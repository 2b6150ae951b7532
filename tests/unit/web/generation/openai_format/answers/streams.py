"""Streams to be tested, and what was written to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from actors.core.generation import Event, Finished, FinishReason
from actors.core.receipts import CancelReason
from tests.fakes.engine import events_of, finished
from web.generation.answer import Formatter
from web.generation.asked import Asked
from web.generation.openai_format.answers.options import ResponseOptions


def written(parsed: Asked[ResponseOptions], *events: Any) -> list[Any]:  # noqa: ANN401
    """Return the chunks that these events become."""
    writer = parsed.formatter()
    chunks = chunks_of(writer, events)
    closing = writer.closing() if writer.finished else b""
    return events_of(chunks + (closing if isinstance(closing, bytes) else b"".join(closing)))


def chunks_of(writer: Formatter, events: Iterable[Event]) -> bytes:
    """Return the bytes that these events become."""
    return b"".join(piece for event in events for piece in writer.write(event))


def choices(chunks: list[Any]) -> list[Any]:
    """Return the first choice of each chunk."""
    return [chunk["choices"][0] for chunk in chunks if chunk != "[DONE]"]


def cut_short(why: CancelReason) -> Finished:
    """Return the event that ends a generation which was cancelled."""
    return replace(finished(reason=FinishReason.CANCELLED), cancelled=why)
