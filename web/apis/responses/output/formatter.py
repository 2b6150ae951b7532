"""A response as server-sent events, and as one object: the same events, of which only the last state is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from web.apis.responses.output.envelope import failure
from web.apis.responses.output.events import ResponseEvents
from web.bodies.errors.problem import Problem
from web.bodies.event_stream import iter_sse, sse
from web.generation.answer import Formatter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from actors.core.generation import Event as EngineEvent
    from actors.core.generation import Progress
    from runtime.chat.parts import Part
    from runtime.errors import CedeError
    from web.apis.responses.answers import Event, Response
    from web.apis.responses.output.envelope import ResponseOptions
    from web.bodies.json_encoding import SelfEncoding
    from web.bodies.json_types import JsonObject


def frame(event: Event) -> Iterator[bytes]:
    """Encode an event of a response as a server-sent event, in fragments."""
    yield f"event: {event['type']}\n".encode()
    if "delta" in event:  # short, and the most frequent
        yield sse(event)
    else:
        yield from iter_sse(event)


class ResponseFormatter(Formatter):
    """Shows a response.  It always holds the whole of it, for the last events of a stream repeat that.

    The last event is written by `closing`, when the response is stored: a client who has read it can refer to it.

    Args:
        options: how to answer.
        page_bytes: not looked at.

    Attributes:
        events: of the response.
    """

    holds = "text of"
    needs_whole = True

    def __init__(self, options: ResponseOptions, page_bytes: int | None = None) -> None:
        self.events = ResponseEvents(options)
        super().__init__(self.events.parts)
        self._cut: CedeError | None = None

    def __len__(self) -> int:
        """Return the number of bytes that are held, about."""
        return len(self.events)

    @property
    def finished(self) -> bool:
        """Return whether the output is whole; then only `closing` is left to write."""
        ending = self.events.ending
        return ending is not None and ending.status != "failed"

    def opening(self) -> bytes:
        """Return the beginning of the stream, which goes out before the engine has done anything."""
        return b"".join(fragment for event in self.events.opening() for fragment in frame(event))

    def write(self, event: EngineEvent) -> Iterable[bytes]:
        """Return the bytes for `event` in fragments; see `Formatter`."""
        if self._cut is not None and not self.failed:
            return (self._fail(Problem.of(self._cut)),)
        return super().write(event)

    def pieces(self, event: Progress, parts: Sequence[Part]) -> Iterator[bytes]:
        """Yield the events for one of the engine's; see `Formatter`."""
        for made in self.events.of(event, parts):
            yield from frame(made)
        if self.set_size is not None:
            self.set_size(len(self))

    def cut(self, error: CedeError) -> None:
        """Give the reader up: the next thing that it reads is this error.  See `Formatter`."""
        self._cut = error

    def error(self, problem: Problem) -> bytes:
        """Return the last event of a response that has failed; see `Formatter`."""
        self.events.fail(failure(problem))
        return b"".join(frame(self.events.last()))

    def closing(self) -> Iterator[bytes]:
        """Yield the last event, which has the whole response."""
        return frame(self.events.last())

    def keep_alive(self) -> bytes:
        """Return an event: some clients do not count comments as a sign of life."""
        return b"".join(frame(self.events.in_progress()))

    def add(self, event: Progress) -> None:
        """Add one event to the whole."""
        for _ in self.events.of(event, self.take(event)):
            pass

    @property
    def is_whole(self) -> bool:
        """Return true: it always holds the whole."""
        return True

    def came_out(self, answer: JsonObject | SelfEncoding) -> None:
        """Tell the response as it was stored; see `Formatter`."""
        assert isinstance(answer, dict)
        if answer["conversation"] is None:
            self.events.outcome["conversation"] = None
        if answer["store"] is False:
            self.events.outcome["store"] = False

    def result(self) -> Response:
        """Return the response object, whose long parts are `SelfEncoding`."""
        return self.events.response()
