"""A request that was understood: what the engine is to do, and who writes the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from actors.core.generation import GenerationRequest
    from web.bodies.collect import EventCollector
    from web.bodies.event_stream import EventWriter


class Asked(Protocol):
    """What an API makes of a request's body; frozen, and made by a pure function."""

    @property
    def request(self) -> GenerationRequest:
        """What the engine is to do."""

    @property
    def stream(self) -> bool:
        """Whether to answer with a stream of events."""

    def writer(self) -> EventWriter:
        """Return a fresh writer of the stream."""

    def collector(self, page_bytes: int) -> EventCollector:
        """Return a fresh builder of the answer that is sent whole, which holds its bytes in pages of this size."""
