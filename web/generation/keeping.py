"""Answers that are kept beside being sent: what is stored of a stream is the answer that it would have been whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.generation import Failed
from web.bodies.json_response import encode_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from actors.core.generation import Event
    from actors.generating.unread import Backlog
    from runtime.errors import CedeError
    from web.bodies.collect import EventCollector
    from web.bodies.event_stream import EventWriter

    Keep = Callable[[bytes], Awaitable[None]]
    """Is given a whole answer as JSON, before its client has read the end of it."""


class KeepingWriter:
    """Writes a stream, and gathers the whole answer beside it; an `event_stream.EventWriter`.

    A stream goes on where its copy is cut for the bytes that it takes; then nothing is kept.

    Args:
        writer: of the stream.
        collector: of the whole answer; fresh.
        backlog: of the bytes that the collector holds.
    """

    def __init__(self, writer: EventWriter, collector: EventCollector, backlog: Backlog) -> None:
        self._writer = writer
        self._collector: EventCollector | None = collector  # None once there is nothing to be kept
        self._backlog = backlog
        backlog.on_cut = self._drop

    def _drop(self, error: CedeError) -> None:
        self._collector = None

    @property
    def content_type(self) -> str:
        """The stream's."""
        return self._writer.content_type

    @property
    def headers(self) -> Mapping[str, str]:
        """The stream's."""
        return self._writer.headers

    @property
    def finished(self) -> bool:
        """Whether every choice has finished."""
        return self._writer.finished

    @property
    def failed(self) -> bool:
        """Whether an error was written; then nothing is kept either."""
        return self._writer.failed

    def write(self, event: Event) -> Iterable[bytes]:
        """Return the bytes for `event` in fragments, which are to be taken before the next event is written."""
        if isinstance(event, Failed):
            self._drop(event.error)
        elif self._collector is not None:
            self._collector.add(event)
            self._backlog.hold(len(self._collector))
        return self._writer.write(event)

    def closing(self) -> bytes | Iterable[bytes]:
        """Return the end of the stream."""
        return self._writer.closing()

    def fail_internally(self) -> bytes:
        """Return the end of a stream that an error of the server breaks off."""
        return self._writer.fail_internally()

    def keep_alive(self) -> bytes:
        """Return a sign of life."""
        return self._writer.keep_alive()

    async def keep(self, keep: Keep) -> None:
        """Give the whole answer to `keep`, once every choice has finished, unless it was cut."""
        if self._collector is not None:
            await keep(await encode_json(self._collector.result()))
