"""What the response objects of OpenAI's two generation endpoints are made of.

`ResponseOptions` holds what a request asks about its response, and a `Format` the differences between the endpoints.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from runtime.chat.parts import PlainParser

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.core.generation import Token
    from runtime.chat.parts import OutputParser, Part
    from runtime.text.tokenizer import Tokenizer

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """The options of one request for its response.

    Attributes:
        id: of the request and its response.
        created: seconds since the epoch.
        model: the name that the client used.
        tokenizer: of the model, for the text of single tokens.
        n: choices per prompt; choice i belongs to prompt i // n.
        prompts: token ids, one tuple per choice, as in the GenerationRequest.
        logprobs: whether to show log-probabilities.
        token_ids: whether to show token ids, of prompts and choices.
        include_usage: whether a stream ends with its usage.
        echo: the text to put before each choice's own; empty without `echo`.
        parser: makes the parser of a choice's text.
    """

    id: str
    created: int
    model: str
    tokenizer: Tokenizer
    n: int
    prompts: tuple[tuple[int, ...], ...]
    logprobs: bool = False
    token_ids: bool = False
    include_usage: bool = False
    echo: tuple[str, ...] = ()
    parser: Callable[[], OutputParser] = PlainParser

    @property
    def choices(self) -> int:
        """Number of choices, of all prompts together."""
        return len(self.prompts)

    def envelope(self, kind: str) -> Json:
        """Return the fields that every object of this response begins with; `kind` is its `object`."""
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


@dataclass(frozen=True, slots=True)
class WholeCall:
    """A tool call of an answer that is sent whole; `arguments` is a `SelfEncoding` that becomes a string."""

    id: str
    name: str
    arguments: object


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """One choice of an answer that is sent whole.

    Attributes:
        text: a `SelfEncoding` that becomes a string.
        has_text: whether it is not empty.
        reasoning: the same for what was thought; None where nothing was.
        calls: of tools.
    """

    text: object
    has_text: bool
    reasoning: object | None = None
    calls: Sequence[WholeCall] = ()


class Format(Protocol):
    """The differences between the responses of the two endpoints.

    Attributes:
        full: the `object` of a response that is sent whole.
        chunk: the `object` of a chunk.
    """

    full: str
    chunk: str

    def opening(self, options: ResponseOptions, index: int) -> Json | None:
        """Return the fields of the first chunk of choice `index`; None where the text may begin at once."""

    def prompt_ids(self, options: ResponseOptions, index: int) -> tuple[Json, Json]:
        """Return what `return_token_ids` adds to the envelope, and what to choice `index`."""

    def delta(self, part: Part | None, call_id: str = "") -> Json | None:
        """Return the fields that hold a part in a chunk, or None if it shows nothing.

        Args:
            part: of the answer; None is for the last chunk.
            call_id: of the call that begins.
        """

    def message(self, answer: WholeAnswer) -> Json:
        """Return the fields that hold the whole answer."""

    def logprobs(self, tokens: Sequence[Token], tokenizer: Tokenizer, offset: int) -> Json:
        """Return the log-probabilities of `tokens`, the first of which begins `offset` characters into the text."""


def call_id(options: ResponseOptions, index: int, call: int) -> str:
    """Return the id of call number `call` of choice `index`: the same in a stream and in a whole answer."""
    digest = hashlib.blake2b(f"{options.id}/{index}/{call}".encode(), digest_size=12)
    return f"call_{digest.hexdigest()}"
