"""The response objects of chat completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from runtime.chat.parts import CallArguments, CallEnd, CallStart, ReasoningPart, TextPart
from web.generation.answer_parts import TOOL_CALLS
from web.generation.logprobs import token_logprobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Token
    from runtime.chat.parts import Part
    from runtime.text.tokenizer import Tokenizer
    from web.generation.openai_format.answers.format import Call, Json, ResponseOptions

REASONING = "reasoning_content"
"""The field for what the model thinks, in the words of DeepSeek and llama-server."""


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """The responses of `/v1/chat/completions`: `chat.completion` and its chunks.

    Attributes:
        reasoning: the field for what the model thinks.
        custom: names of the custom tools, whose input is a text.
        legacy: calls are written as one `function_call`, as before there were tools.
    """

    reasoning: str = REASONING
    custom: frozenset[str] = frozenset()
    legacy: bool = False

    full: ClassVar[str] = "chat.completion"
    chunk: ClassVar[str] = "chat.completion.chunk"

    def opening(self, options: ResponseOptions, index: int) -> Json | None:
        """Return the role, with which every chat begins; see `Format`."""
        return {"delta": {"role": "assistant", "content": ""}}

    def about_prompt(self, fields: Json) -> tuple[Json, Json]:
        """Return all for the envelope, for there is one prompt; see `Format`."""
        return fields, {}

    def delta(self, part: Part | None, call: Call | None = None) -> Json | None:
        """Return a `delta`, empty where there is no part; see `Format`."""
        fields: Json | None
        match part:
            case TextPart(text):
                fields = {"content": text}
            case ReasoningPart(text):
                fields = {self.reasoning: text}
            case CallStart() if call is not None:
                fields = self._call_start(call)
            case CallArguments(_, text) if call is not None:
                fields = self._call_arguments(call, text)
            case CallEnd():
                return None
            case _:
                fields = {}
        return None if fields is None else {"delta": fields}

    def _call_start(self, call: Call) -> Json | None:
        if self.legacy:  # it knows one call at most
            return {"function_call": {"name": call.name, "arguments": ""}} if call.number == 0 else None
        return {"tool_calls": [{"index": call.number, **self._call(call, "")}]}

    def _call_arguments(self, call: Call, text: str) -> Json | None:
        if self.legacy:
            return {"function_call": {"arguments": text}} if call.number == 0 else None
        holder, field = ("custom", "input") if call.name in self.custom else ("function", "arguments")
        return {"tool_calls": [{"index": call.number, holder: {field: text}}]}

    def _call(self, call: Call, arguments: object) -> Json:
        if call.name in self.custom:
            return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": arguments}}
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}

    def message(self, text: object, thought: object | None, calls: Sequence[tuple[Call, object]]) -> Json:
        """Return a `message`; see `Format`."""
        message: Json = {"role": "assistant", "content": (text or None) if calls else text, "refusal": None}
        if thought is not None:
            message[self.reasoning] = thought
        if calls and self.legacy:
            call, arguments = calls[0]
            message["function_call"] = {"name": call.name, "arguments": arguments}
        elif calls:
            message["tool_calls"] = [self._call(*call) for call in calls]
        return {"message": message}

    def finish_reason(self, reason: str) -> str:
        """Return `function_call` where that is how a call is written; see `Format`."""
        return "function_call" if self.legacy and reason == TOOL_CALLS else reason

    def logprobs(self, tokens: Sequence[Token], tokenizer: Tokenizer, offset: int) -> Json:
        """Return a list of objects, one for each token; see `Format`."""
        return {"content": [token_logprobs(token, tokenizer) for token in tokens], "refusal": None}
