"""Options of a request for its response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from runtime.chat.parts import PlainParser

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runtime.chat.parts import OutputParser
    from runtime.text.tokenizer import Tokenizer
    from web.bodies.json_encoding import JsonObject

ReasoningField = Literal["reasoning_content", "reasoning"]
"""The field of chats for what the model thinks: in the words of DeepSeek and llama-server, or of vLLM."""

ServiceTier = Literal["flex", "default", "priority"]


@dataclass(frozen=True, slots=True)
class ChatRecord:
    """Record that is stored beside an answer.

    Attributes:
        messages: of the body, each with an id.
        metadata: of the body.
    """

    messages: Sequence[JsonObject]
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """The options of one request for its response.

    Attributes:
        id: of the request and its response.
        created: seconds since the epoch.
        model: the name that the client used.
        fingerprint: of the model and how it was loaded.
        tokenizer: of the model, for the text of single tokens.
        n: generations per prompt; number i belongs to prompt i // n.
        shown: how many of them become choices, the best.
        prompts: token ids, one tuple per choice, as in the GenerationRequest.
        logprobs: whether to show log-probabilities.
        echo_logprobs: how many alternatives to show for each token of an echoed prompt; None for none at all.
        prompt_logprobs: the same in vLLM's form, for any prompt.
        token_ids: whether to show token ids, of prompts and choices.
        include_usage: whether a stream ends with its usage.
        running_usage: whether each chunk has the usage so far.
        echo: the text to put before each choice's own; empty without `echo`.
        parser: makes the parser of a choice's text.
        predicted: whether the client said what the answer would be.
        reasoning: of a chat, the field for what the model thinks.
        custom: names of a chat's custom tools, whose input is a text.
        legacy: calls of a chat are written as one `function_call`, as before there were tools.
        service_tier: that a chat is served in, if the client asked for one.
        record: of a chat, what is to be stored beside its answer; None for nothing.
    """

    id: str
    created: int
    model: str
    fingerprint: str
    tokenizer: Tokenizer
    n: int
    shown: int
    prompts: tuple[tuple[int, ...], ...]
    logprobs: bool = False
    echo_logprobs: int | None = None
    prompt_logprobs: int | None = None
    token_ids: bool = False
    include_usage: bool = False
    running_usage: bool = False
    echo: tuple[str, ...] = ()
    parser: Callable[[], OutputParser] = PlainParser
    predicted: bool = False
    reasoning: ReasoningField = "reasoning_content"
    custom: frozenset[str] = frozenset()
    legacy: bool = False
    service_tier: ServiceTier | None = None
    record: ChatRecord | None = None

    @property
    def choices(self) -> int:
        """Number of generations, of all prompts together."""
        return len(self.prompts)
