"""One answer, gathered once from the engine's events: an API adds only how its pieces, and the whole of it, look."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from actors.core.generation import Failed, Finished, Token
from runtime.chat.parts import CallArguments, CallStart, ReasoningPart, TextPart
from web.bodies.errors.problem import INTERNAL, Problem, report
from web.bodies.event_stream import CONTENT_TYPE, HEADERS
from web.bodies.json_encoding import JsonArrayBuilder, JsonStringBuilder, RawJson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from actors.core.generation import Event, Progress
    from runtime.chat.parts import Part
    from runtime.errors import CedeError
    from web.bodies.json_encoding import JsonObject, SelfEncoding
    from web.generation.answer_parts import AnswerParts

TEXT, THOUGHT, CALL = "text", "thinking", "tool_use"
"""The kinds of blocks."""


class Block:
    """A text, a thought or a call, whose content grows.

    Args:
        kind: one of `TEXT`, `THOUGHT`, `CALL`.
        content: of it, or the arguments of the call.
        start: of a call; None of the others.
    """

    def __init__(self, kind: str, content: JsonStringBuilder | RawJson, start: CallStart | None = None) -> None:
        self.kind = kind
        self.content = content
        self.start = start


class Gathered:
    """Output of one generation, as JSON that is ready to be sent.

    Args:
        page_bytes: of the pages that the bytes are held in.
        prefix: text before all that is said.
        in_order: a text, or a thought, behind something else is a block of its own; else there is one of each.
        objects: the arguments of a call are a JSON object, and come whole; else they are a string.

    Attributes:
        blocks: in the order in which they began.
    """

    def __init__(self, page_bytes: int, prefix: str = "", *, in_order: bool = False, objects: bool = False) -> None:
        self._page_bytes = page_bytes
        self._in_order = in_order
        self._objects = objects
        self._open: dict[str, Block] = {}
        self._arrays: dict[str, JsonArrayBuilder[Any]] = {}
        self._logprob, self._tokens = 0.0, 0
        self.blocks: list[Block] = []
        self._calls: dict[int, Block] = {}  # by their numbers, of which some may be left out
        self._grown = 0  # bytes
        if not in_order:
            self._begin(Block(TEXT, JsonStringBuilder(page_bytes, prefix)))

    def add(self, event: Progress, parts: Iterable[Part]) -> None:
        """Add an event, and the parts that it made certain."""
        for part in parts:
            match part:
                case TextPart(text):
                    self._grow(self._block(TEXT), text)
                case ReasoningPart(text):
                    self._grow(self._block(THOUGHT), text)
                case CallStart():
                    arguments = RawJson("") if self._objects else JsonStringBuilder(self._page_bytes)
                    self._calls[part.call] = self._begin(Block(CALL, arguments, part))
                    self._grown += len(part.name)
                case CallArguments(call, text):
                    self._grow(self._calls[call], text)
        if isinstance(event, Token) and event.logprobs is not None:
            self._logprob += event.logprobs.logprob
            self._tokens += 1

    def _block(self, kind: str) -> Block:
        """Return the block that a text, or a thought, goes on with."""
        return self._open.get(kind) or self._begin(Block(kind, JsonStringBuilder(self._page_bytes)))

    def _begin(self, block: Block) -> Block:
        if self._in_order:
            self._open.clear()
        self._open[block.kind] = block
        self.blocks.append(block)
        return block

    def _grow(self, block: Block, text: str) -> None:
        before = len(block.content)
        block.content.add(text)
        self._grown += len(block.content) - before

    def extend(self, name: str, values: Iterable[object]) -> None:
        """Add small values to one of the arrays that are gathered beside the blocks."""
        array = self.array(name)
        before = len(array)
        for value in values:
            array.add(value)
        self._grown += len(array) - before

    def grown(self) -> int:
        """Return how many more bytes are held than when this was last asked."""
        grown, self._grown = self._grown, 0
        return grown

    def array(self, name: str) -> JsonArrayBuilder[Any]:
        """Return the array of a name; empty where nothing was added."""
        if name not in self._arrays:
            self._arrays[name] = JsonArrayBuilder(self._page_bytes)
        return self._arrays[name]

    @property
    def text(self) -> JsonStringBuilder | RawJson:
        """The one text, which is there from the beginning."""
        return self._open[TEXT].content

    def content(self, kind: str) -> JsonStringBuilder | RawJson | None:
        """Return the one text, or thought; None where there is none."""
        block = self._open.get(kind)
        return None if block is None else block.content

    @property
    def calls(self) -> list[tuple[CallStart, JsonStringBuilder | RawJson]]:
        """The calls of tools, each with its arguments."""
        return [(call.start, call.content) for call in self._calls.values() if call.start is not None]

    @property
    def likelihood(self) -> float:
        """The mean log-probability of its tokens; 0 without any."""
        return self._logprob / self._tokens if self._tokens else 0.0


class Formatter(ABC):
    """Shows one answer in the words of an API: in pieces, as a whole, or both; pure, bytes out for events in.

    It is an `event_stream.EventWriter` and a `collect.EventCollector`: a whole answer is what the pieces add up to.

    Args:
        parts: of the answer; fresh.
        generations: how many there are.
        gathered: one for each generation; none where the answer is only streamed, and so nothing is held.

    Attributes:
        parts, generations, gathered: the same.
        ends: the last events of those that have ended, by their numbers.
        failed: whether an error was written; then nothing follows.
        set_size: told the bytes that are held, with each event.
    """

    content_type = CONTENT_TYPE
    headers = HEADERS
    holds = "copy of"
    """What it holds of a stream, for the log."""
    needs_whole = False
    """Whether a stream cannot go on without what is held."""

    def __init__(self, parts: AnswerParts, generations: int = 1, gathered: Sequence[Gathered] = ()) -> None:
        self.parts = parts
        self.generations = generations
        self.gathered = gathered
        self.ends: dict[int, Finished] = {}
        self.failed = False
        self.set_size: Callable[[int], None] | None = None
        self._length = 0  # of all that is gathered

    def take(self, event: Progress) -> Sequence[Part]:
        """Take an event: gather it, where that is wanted, and return the parts that it made certain.

        What an API gathers beside the parts is to be gathered before.
        """
        parts = self.parts.of(event)
        if self.gathered:
            gathered = self.gathered[event.index]
            gathered.add(event, parts)
            self._length += gathered.grown()
            if self.set_size is not None:
                self.set_size(len(self))
        if isinstance(event, Finished):
            self.ends[event.index] = event
        return parts

    @abstractmethod
    def error(self, problem: Problem) -> bytes:
        """Return the error object that ends a stream."""

    # --- in pieces ----------------------------------------------------------------------------------------------------

    def opening(self) -> bytes:
        """Return what a stream begins with, before the engine has done anything; most begin with the first event."""
        return b""

    @property
    def finished(self) -> bool:
        """Return whether all generations have ended; then only `closing` is left to write."""
        return len(self.ends) == self.generations

    def write(self, event: Event) -> Iterable[bytes]:
        """Return the bytes for `event` in fragments, which are to be taken before the next event is written."""
        if self.failed:
            return ()
        if isinstance(event, Failed):
            report(event.error)
            return (self._fail(Problem.of(event.error)),)
        return self.pieces(event, self.take(event))

    @abstractmethod
    def pieces(self, event: Progress, parts: Sequence[Part]) -> Iterable[bytes]:
        """Return the bytes for an event that made these parts certain."""

    @abstractmethod
    def closing(self) -> bytes | Iterable[bytes]:
        """Return the end of a stream whose generations have all ended."""

    @abstractmethod
    def keep_alive(self) -> bytes:
        """Return what says that the stream is alive."""

    def fail_internally(self) -> bytes:
        """Return the end of a stream that an error of the server breaks off."""
        return self._fail(INTERNAL)

    def _fail(self, problem: Problem) -> bytes:
        self.failed = True
        self.gathered = ()
        return self.error(problem)

    def cut(self, error: CedeError) -> None:
        """Give up what is held; a stream that needs it ends with this error."""
        self.gathered = ()

    # --- as a whole ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of bytes that are held."""
        return (self._length if self.gathered else 0) + self.parts.held

    def add(self, event: Progress) -> None:
        """Add one event to the whole."""
        self.take(event)

    @property
    def is_whole(self) -> bool:
        """Return whether `result` has the answer: that of a stream may have been given up."""
        return bool(self.gathered)

    def came_out(self, answer: JsonObject | SelfEncoding) -> None:  # noqa: B027  # most show nothing of it
        """Take note of the answer as it was kept, before the end of the stream is written."""

    @abstractmethod
    def result(self) -> JsonObject:
        """Return the whole answer, once all generations have ended; its long parts are `SelfEncoding`."""
