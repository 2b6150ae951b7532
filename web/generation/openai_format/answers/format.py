"""Parts of the response objects of OpenAI's two generation endpoints.

`ResponseOptions` holds what a request asks about its response, and a `Format` the differences between the endpoints.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from actors.core.generation import FinishReason
from runtime.chat.parts import PlainParser
from web.generation.control.cancel_note import cancel_note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.core.generation import Finished, Token
    from runtime.chat.parts import CallStart, OutputParser, Part
    from runtime.text.tokenizer import Tokenizer

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChatRecord:
    """Record that is stored beside an answer.

    Attributes:
        messages: of the body, each with an id.
        metadata: of the body.
    """

    messages: Sequence[Json]
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """The options of one request for its response.

    Attributes:
        id: of the request and its response.
        created: seconds since the epoch.
        model: the name that the client used.
        tokenizer: of the model, for the text of single tokens.
        format: of the endpoint.
        n: generations per prompt; number i belongs to prompt i // n.
        shown: how many of them become choices, the best; None for all.
        prompts: token ids, one tuple per choice, as in the GenerationRequest.
        logprobs: whether to show log-probabilities.
        echo_logprobs: how many alternatives to show for each token of an echoed prompt; None for none at all.
        prompt_logprobs: the same in vLLM's form, for any prompt.
        token_ids: whether to show token ids, of prompts and choices.
        include_usage: whether a stream ends with its usage.
        running_usage: whether each chunk has the usage so far.
        echo: the text to put before each choice's own; empty without `echo`.
        parser: makes the parser of a choice's text.
        fingerprint: of the model and how it was loaded.
        predicted: whether the client said what the answer would be.
        service_tier: that it is served in, if the client asked for one.
        record: of a chat, what is to be stored beside its answer; None for nothing.
    """

    id: str
    created: int
    model: str
    tokenizer: Tokenizer
    format: Format
    n: int
    prompts: tuple[tuple[int, ...], ...]
    shown: int | None = None
    logprobs: bool = False
    echo_logprobs: int | None = None
    prompt_logprobs: int | None = None
    token_ids: bool = False
    include_usage: bool = False
    running_usage: bool = False
    echo: tuple[str, ...] = ()
    parser: Callable[[], OutputParser] = PlainParser
    fingerprint: str | None = None
    predicted: bool = False
    service_tier: str | None = None
    record: ChatRecord | None = None

    @property
    def choices(self) -> int:
        """Number of generations, of all prompts together."""
        return len(self.prompts)

    def envelope(self, kind: str) -> Json:
        """Return the fields that every object of this response begins with; `kind` is its `object`."""
        fields = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        tier = {"service_tier": self.service_tier} if self.service_tier else {}
        return fields | {"system_fingerprint": self.fingerprint} | tier


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of an answer.

    Attributes:
        number: of the call in its choice, from 0.
        id: by which the client's answer will refer to it.
        name: of the tool.
    """

    number: int
    id: str
    name: str


class Format(Protocol):
    """The differences between the responses of the two endpoints.

    Attributes:
        full: the `object` of a response that is sent whole.
        chunk: the `object` of a chunk.
    """

    full: ClassVar[str]
    chunk: ClassVar[str]

    def opening(self, options: ResponseOptions, index: int) -> Json | None:
        """Return the fields of the first chunk of choice `index`; None where the text may begin at once."""

    def about_prompt(self, fields: Json) -> tuple[Json, Json]:
        """Return those of these fields, which tell of a prompt, that are the envelope's, and those of each choice."""

    def delta(self, part: Part | None, call: Call | None = None) -> Json | None:
        """Return the fields that hold a part in a chunk, or None if it shows nothing.

        Args:
            part: of the answer; None for a chunk without any, such as the last.
            call: that the part is of, if it is of one.
        """

    def message(self, text: object, thought: object | None, calls: Sequence[tuple[Call, object]]) -> Json:
        """Return the fields that hold the whole answer.

        Args:
            text: of the answer; false where it is empty.
            thought: what was thought; None where nothing was.
            calls: of tools, each with its arguments, which are a text, too.
        """

    def finish_reason(self, reason: str) -> str:
        """Return why a choice ended, in the endpoint's words, for `tool_calls` or what the engine says."""

    def logprobs(self, tokens: Sequence[Token], tokenizer: Tokenizer, offset: int) -> Json:
        """Return the log-probabilities of `tokens`, the first of which begins `offset` characters into the text."""


def call_of(options: ResponseOptions, index: int, start: CallStart) -> Call:
    """Return the call that begins in choice `index`: the same in a stream and in a whole answer."""
    digest = hashlib.blake2b(f"{options.id}/{index}/{start.call}".encode(), digest_size=12)
    return Call(start.call, start.id or f"call_{digest.hexdigest()}", start.name)


def ending(format: Format, finished: Finished, reason: str) -> Json:
    """Return the fields that say why a choice ended.

    OpenAI's clients have no word for a request that was cancelled while they listen: to them it was cut short, as by a
    limit, and why is in a field of ours.

    Args:
        format: of the endpoint.
        finished: the choice's last event.
        reason: as `AnswerParts.reason` has it.
    """
    if finished.cancelled is None:
        return {"finish_reason": format.finish_reason(reason)} | cancel_note(finished)
    return {"finish_reason": FinishReason.LENGTH.value} | cancel_note(finished)
