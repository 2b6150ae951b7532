"""The objects of an answer in Ollama's API, as plain functions of plain data."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from runtime.chat.parts import PlainParser
from web.bodies.json_encoding import SelfEncoding, iter_json
from web.generation.control.cancel_note import cancel_note
from web.generation.logprobs import token_logprobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from actors.core.generation import Finished, Token
    from runtime.chat.parts import CallStart, OutputParser
    from runtime.text.tokenizer import Tokenizer

Json = dict[str, Any]

NANOSECONDS = 1_000_000  # in a millisecond


class AnswerShape(Protocol):
    """Shape in which an endpoint shows what the model says: `message_shape` or `response_shape`."""

    def __call__(self, content: object, thinking: object | None, calls: Sequence[Json] | SelfEncoding) -> Json:
        """Return the fields that hold it; text and thoughts may be `SelfEncoding`."""


def message_shape(content: object, thinking: object | None, calls: Sequence[Json] | SelfEncoding) -> Json:
    """Show it as a message, for `/api/chat`; see `AnswerShape`."""
    message: Json = {"role": "assistant", "content": content}
    if thinking is not None:
        message["thinking"] = thinking
    if calls:
        message["tool_calls"] = calls
    return {"message": message}


def response_shape(content: object, thinking: object | None, calls: Sequence[Json] | SelfEncoding) -> Json:
    """Show it as a text, for `/api/generate`; see `AnswerShape`."""
    fields: Json = {"response": content}
    if thinking is not None:
        fields["thinking"] = thinking
    if calls:
        fields["tool_calls"] = calls
    return fields


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """Options of a request for its answer.

    Attributes:
        id: of the request, of which those of its calls are made.
        model: the name that the client used.
        shape: of the endpoint.
        tokenizer: of the model, for the text of single tokens.
        parser: makes the parser of the answer's text.
        logprobs: whether to show log-probabilities.
        context: the prompt's ids as the inside of a JSON array, where the answer ends with all ids; None where not.
        clock: seconds since the epoch.
        started: when the request was understood, by that clock.
    """

    id: str
    model: str
    shape: AnswerShape
    tokenizer: Tokenizer
    parser: Callable[[], OutputParser] = PlainParser
    logprobs: bool = False
    context: str | None = None
    clock: Callable[[], float] = time.time
    started: float = 0.0

    def envelope(self) -> Json:
        """Return the fields that every object begins with."""
        return {"model": self.model, "created_at": timestamp(self.clock())}

    def ending(self, finished: Finished) -> Json:
        """Return the fields of a whole answer's end.

        `load_duration` is the time that was spent on neither the prompt nor the answer: as in Ollama, the wait for the
        model.
        """
        timings = finished.timings
        prompt, answer = round(timings.prompt_ms * NANOSECONDS), round(timings.predicted_ms * NANOSECONDS)
        total = max(prompt + answer, round((self.clock() - self.started) * 1000 * NANOSECONDS))
        return {
            "done": True,
            "done_reason": finished.reason.value,
            "total_duration": total,
            "load_duration": total - prompt - answer,
            "prompt_eval_count": finished.prompt_tokens,
            "prompt_eval_duration": prompt,
            "eval_count": finished.completion_tokens,
            "eval_duration": answer,
        } | cancel_note(finished)


class ContextIds(SelfEncoding):
    """The ids of a prompt and of its answer so far, as JSON that is ready to be sent.

    Args:
        prompt: the prompt's ids, as the inside of an array.
    """

    def __init__(self, prompt: str) -> None:
        self._encoded = bytearray(prompt.encode())

    def __len__(self) -> int:
        """Return the number of bytes that are held."""
        return len(self._encoded)

    def add(self, token_id: int) -> None:
        """Add the answer's next token."""
        self._encoded += f",{token_id}".encode()

    def iter_json(self) -> Iterator[bytes]:
        """Yield the array."""
        yield b"["
        yield bytes(self._encoded)
        yield b"]"


def timestamp(seconds: float) -> str:
    """Return a time as Ollama writes it (RFC 3339); seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def logprobs_of(token: Token, tokenizer: Tokenizer) -> Json:
    """Return the log-probability of a token, and those of its alternatives where some were asked for."""
    shown = dict(token_logprobs(token, tokenizer))
    if not shown["top_logprobs"]:
        del shown["top_logprobs"]
    return shown


def call_object(request_id: str, start: CallStart, arguments: object) -> Json:
    """Return a call, whose id is made of the request's; its arguments are an object, a `RawJson`."""
    digest = hashlib.blake2b(f"{request_id}/{start.call}".encode(), digest_size=12)
    function = {"index": start.call, "name": start.name, "arguments": arguments}
    return {"id": f"call_{digest.hexdigest()}", "function": function}


def line(value: Json) -> bytes:
    """Encode an object as one line of a stream."""
    return b"".join(iter_json(value)) + b"\n"
