"""The answers of KoboldAI's API, whole or in a stream, and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired

from typing_extensions import TypedDict

from actors.core.generation import FinishReason
from runtime.chat.parts import PlainParser, TextPart
from web.bodies.event_stream import sse
from web.bodies.json_types import Long
from web.generation.answer import Formatter, Gathered
from web.generation.answer_parts import AnswerParts
from web.generation.control.cancel_note import CancelNote, cancel_note

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.core.generation import Finished, Progress
    from runtime.chat.parts import Part
    from web.bodies.errors.problem import Problem

Reason = Literal["stop", "length"]


class Result(TypedDict):
    """A text."""

    text: Long[str]
    finish_reason: Reason
    prompt_tokens: int
    completion_tokens: int
    cede: NotRequired[CancelNote]


class Results(TypedDict):
    """A whole answer, which has one result."""

    results: list[Result]


class Piece(TypedDict):
    """The data of one event; the last has a reason."""

    token: str
    finish_reason: Reason | None
    cede: NotRequired[CancelNote]


class Detail(TypedDict):
    """The error."""

    msg: str
    type: str


class Error(TypedDict):
    """The error object."""

    detail: Detail


def error_object(problem: Problem) -> Error:
    """Return the error object of a problem."""
    return {"detail": {"msg": problem.message, "type": problem.kind}}


class KoboldErrors:
    """KoboldAI's error objects; an `ErrorShape`."""

    def status(self, problem: Problem) -> int:
        """Return the problem's own status."""
        return problem.status

    def body(self, problem: Problem, request_id: str | None) -> Error:
        """Return the error object, which has no place for the request's id."""
        return error_object(problem)


class KoboldFormatter(Formatter):
    """Shows an answer as KoboldCpp does.

    Args:
        options: none.
        page_bytes: of the pages that a whole answer is held in; None for a stream.
    """

    def __init__(self, options: None, page_bytes: int | None = None) -> None:
        super().__init__(AnswerParts(PlainParser, 1), gathered=[Gathered(page_bytes)] if page_bytes else ())

    def pieces(self, event: Progress, parts: Sequence[Part]) -> Iterable[bytes]:
        """Return an event where there is a text to show; see `Formatter`."""
        text = "".join(part.text for part in parts if isinstance(part, TextPart))
        return (_message({"token": text, "finish_reason": None}),) if text else ()

    def closing(self) -> bytes:
        """Return the last event, which tells how the answer ended."""
        end = self.ends[0]
        return _message({"token": "", "finish_reason": _reason(end), **cancel_note(end)})

    def keep_alive(self) -> bytes:
        """Return an event that adds nothing: a comment would not wake a client's timer."""
        return _message({"token": "", "finish_reason": None})

    def error(self, problem: Problem) -> bytes:
        """Return the error object; see `Formatter`."""
        return sse(error_object(problem))

    def result(self) -> Results:
        """Return the object; see `Formatter`."""
        (gathered,), end = self.gathered, self.ends[0]
        result: Result = {
            "text": gathered.text,
            "finish_reason": _reason(end),
            "prompt_tokens": end.prompt_tokens,
            "completion_tokens": end.completion_tokens,
            **cancel_note(end),
        }
        return {"results": [result]}


def _message(piece: Piece) -> bytes:
    return b"event: message\n" + sse(piece)


def _reason(end: Finished) -> Reason:
    """Return why an answer ended, in words that have none for a cancelled one."""
    return "stop" if end.reason is FinishReason.STOP else "length"
