"""The response objects of OpenAI's two generation endpoints, as plain functions of plain data.

`ResponseOptions` holds what a request asks about its response.  `ChatFormat` and `TextFormat` hold the differences
between the two endpoints; what their responses have in common is in `web.openai.chunks` and
`web.openai.response_builder`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from runtime.chat.parts import CallArguments, CallEnd, CallStart, PlainParser, ReasoningPart, TextPart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.core.generation import Token
    from runtime.chat.parts import OutputParser, Part
    from runtime.text.tokenizer import Tokenizer

Json = dict[str, Any]

REASONING = "reasoning_content"
"""The field for what the model thinks, in the words of DeepSeek and llama-server."""


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


class ChatFormat:
    """The responses of `/v1/chat/completions`: `chat.completion` and its chunks."""

    full = "chat.completion"
    chunk = "chat.completion.chunk"

    def opening(self, options: ResponseOptions, index: int) -> Json | None:
        """Return the role, with which every chat begins; see `Format`."""
        return {"delta": {"role": "assistant", "content": ""}}

    def prompt_ids(self, options: ResponseOptions, index: int) -> tuple[Json, Json]:
        """Return the prompt's ids for the envelope; see `Format`."""
        return {"prompt_token_ids": options.prompts[index]}, {}

    def delta(self, part: Part | None, call_id: str = "") -> Json | None:
        """Return a `delta`, empty in the last chunk; see `Format`."""
        match part:
            case None:
                fields: Json = {}
            case TextPart(text):
                fields = {"content": text}
            case ReasoningPart(text):
                fields = {REASONING: text}
            case CallStart(call, name):
                function = {"name": name, "arguments": ""}
                fields = {"tool_calls": [{"index": call, "id": call_id, "type": "function", "function": function}]}
            case CallArguments(call, text):
                fields = {"tool_calls": [{"index": call, "function": {"arguments": text}}]}
            case CallEnd():
                return None
        return {"delta": fields}

    def message(self, answer: WholeAnswer) -> Json:
        """Return a `message`; see `Format`."""
        message: Json = {"role": "assistant", "content": answer.text, "refusal": None}
        if answer.reasoning is not None:
            message[REASONING] = answer.reasoning
        if answer.calls:
            message["content"] = answer.text if answer.has_text else None
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in answer.calls
            ]
        return {"message": message}

    def logprobs(self, tokens: Sequence[Token], tokenizer: Tokenizer, offset: int) -> Json:
        """Return a list of objects, one for each token; see `Format`."""
        return {"content": [_chat_logprobs(token, tokenizer) for token in tokens], "refusal": None}


class TextFormat:
    """The responses of `/v1/completions`: `text_completion`, whose chunks have the same name."""

    full = chunk = "text_completion"

    def opening(self, options: ResponseOptions, index: int) -> Json | None:
        """Return the prompt where `echo` asks for it, or no text where only token ids are to come; see `Format`."""
        if options.echo:
            return {"text": options.echo[index]}
        return {"text": ""} if options.token_ids else None

    def prompt_ids(self, options: ResponseOptions, index: int) -> tuple[Json, Json]:
        """Return the prompt's ids for the choice; see `Format`."""
        return {}, {"prompt_token_ids": options.prompts[index]}

    def delta(self, part: Part | None, call_id: str = "") -> Json | None:
        """Return a `text`, empty in the last chunk; see `Format`."""
        return {"text": part.text if isinstance(part, TextPart) else ""}

    def message(self, answer: WholeAnswer) -> Json:
        """Return a `text`; see `Format`."""
        return {"text": answer.text}

    def logprobs(self, tokens: Sequence[Token], tokenizer: Tokenizer, offset: int) -> Json:
        """Return lists that are as long as `tokens`; see `Format`."""
        texts = [tokenizer.token_text(token.token_id) for token in tokens]
        return {
            "tokens": texts,
            "token_logprobs": [token.logprobs and token.logprobs.logprob for token in tokens],
            "top_logprobs": [_text_alternatives(token, tokenizer) for token in tokens],
            "text_offset": _offsets(texts, offset),
        }


def call_id(options: ResponseOptions, index: int, call: int) -> str:
    """Return the id of call number `call` of choice `index`: the same in a stream and in a whole answer."""
    digest = hashlib.blake2b(f"{options.id}/{index}/{call}".encode(), digest_size=12)
    return f"call_{digest.hexdigest()}"


def _chat_logprobs(token: Token, tokenizer: Tokenizer) -> Json:
    assert token.logprobs is not None
    return {
        **_chat_alternative(token.token_id, token.logprobs.logprob, tokenizer),
        "top_logprobs": [_chat_alternative(*top, tokenizer) for top in token.logprobs.top],
    }


def _chat_alternative(token_id: int, logprob: float, tokenizer: Tokenizer) -> Json:
    text = tokenizer.token_text(token_id)
    return {"token": text, "logprob": logprob, "bytes": list(tokenizer.token_bytes(token_id))}


def _text_alternatives(token: Token, tokenizer: Tokenizer) -> dict[str, float]:
    """Return the most likely tokens and the chosen one, up to `logprobs` + 1 entries, as OpenAI does."""
    assert token.logprobs is not None
    top = {tokenizer.token_text(token_id): logprob for token_id, logprob in token.logprobs.top}
    return top | {tokenizer.token_text(token.token_id): token.logprobs.logprob}


def _offsets(texts: list[str], start: int) -> list[int]:
    offsets = []
    for text in texts:
        offsets.append(start)
        start += len(text)
    return offsets
