"""The response objects of chat completions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.parts import CallArguments, CallEnd, CallStart, ReasoningPart, TextPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Token
    from runtime.chat.parts import Part
    from runtime.text.tokenizer import Tokenizer
    from web.openai.answers.format import Json, ResponseOptions, WholeAnswer

REASONING = "reasoning_content"
"""The field for what the model thinks, in the words of DeepSeek and llama-server."""


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


def _chat_logprobs(token: Token, tokenizer: Tokenizer) -> Json:
    assert token.logprobs is not None
    return {
        **_chat_alternative(token.token_id, token.logprobs.logprob, tokenizer),
        "top_logprobs": [_chat_alternative(*top, tokenizer) for top in token.logprobs.top],
    }


def _chat_alternative(token_id: int, logprob: float, tokenizer: Tokenizer) -> Json:
    text = tokenizer.token_text(token_id)
    return {"token": text, "logprob": logprob, "bytes": list(tokenizer.token_bytes(token_id))}
