"""Texts and conversations as tokens, and back; null stands for "not given" in the bodies.

Everything in here is synchronous and has no side effect, so a worker thread can do all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import ConfigDict, Field

from runtime.errors import RequestError
from runtime.text.prompt_tokens import TooManyTokens, encode_within
from web.bodies.fields import Name, Text, TokenIds
from web.bodies.strict_model import StrictModel, parse_model, show_unsupported
from web.generation.openai_format.chat.messages import conversation_of
from web.generation.openai_format.chat.schema import ChatBody, Message
from web.generation.openai_format.schemas import UNSUPPORTED as UNSUPPORTED_IN_CHATS
from web.generation.prompts import conversation_prompt, render
from web.process.limits import MAX_MESSAGES

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel
    from web.apis.utilities.answers import AppliedTemplate, Detokenized, Piece, Tokens


class TokenizeBody(StrictModel):
    """The body of `POST /tokenize`: llama-server's `content`, or vLLM's `prompt` or `messages`.

    With messages the body may hold whatever that of a chat may.
    """

    model_config = ConfigDict(json_schema_extra=lambda schema: show_unsupported(schema, UNSUPPORTED))

    model: Name | None = None
    content: Text | None = None
    add_special: bool | None = None
    with_pieces: bool | None = None
    prompt: Text | None = None
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(StrictModel):
    """The body of `POST /detokenize`."""

    model: Name | None = None
    tokens: TokenIds


UNSUPPORTED: dict[str, tuple[object, ...]] = {"parse_special": (True,)}

LEAST_BOUND = 2**17
"""Tokens that a text may have in any case: each takes half a kilobyte of memory for a moment."""


def tokenize(raw: bytes, model: ServedModel, max_generations: int) -> Tokens:
    """Answer the body of `POST /tokenize`, in the words of the server whose field it has.

    Args:
        raw: the body.
        model: that is served.
        max_generations: is not looked at.

    Raises:
        RequestError: the body is not valid, or the text is too long.
    """
    body = parse_model(TokenizeBody, raw, UNSUPPORTED, model.context_length)
    given = [name for name in ("content", "prompt", "messages") if getattr(body, name) is not None]
    if len(given) != 1:
        raise RequestError("Give one of 'content', 'prompt' and 'messages'.", param=given[1] if given else "content")
    if body.content is not None:
        ids = _encode(body.content, model, "content", add_special_tokens=bool(body.add_special))
        return {"tokens": [_piece(token_id, model) for token_id in ids] if body.with_pieces else ids}
    if body.prompt is not None:
        ids = _encode(body.prompt, model, "prompt", add_special_tokens=body.add_special_tokens is not False)
    else:
        ids = _chat_ids(raw, model, add_special_tokens=bool(body.add_special_tokens))
    names = [model.tokenizer.token_text(token_id) for token_id in ids] if body.return_token_strs else None
    return {"count": len(ids), "max_model_len": model.context_length, "tokens": ids, "token_strs": names}


def detokenize(raw: bytes, model: ServedModel, max_generations: int) -> Detokenized:
    """Answer the body of `POST /detokenize`, with the text under both servers' names; see `tokenize`."""
    bound = _bound(model)
    ids = parse_model(DetokenizeBody, raw, context_length=bound).tokens
    if len(ids) > bound:
        raise RequestError(f"At most {bound} tokens are turned into text.", param="tokens")
    if ids and max(ids) >= model.vocab_size:
        raise RequestError(f"Token ids must be from 0 to {model.vocab_size - 1}.", param="tokens")
    text = model.tokenizer.decode(ids, skip_special_tokens=False)
    return {"content": text, "prompt": text}


def apply_template(raw: bytes, model: ServedModel, max_generations: int) -> AppliedTemplate:
    """Answer the body of `POST /apply-template`: the prompt of a chat; see `tokenize`."""
    body = parse_model(ChatBody, raw, UNSUPPORTED_IN_CHATS, model.context_length)
    return {"prompt": render(conversation_of(body), model).text}


def _chat_ids(raw: bytes, model: ServedModel, *, add_special_tokens: bool) -> list[int]:
    conversation = conversation_of(parse_model(ChatBody, raw, UNSUPPORTED_IN_CHATS, model.context_length))
    if add_special_tokens:  # beside those that the template has written
        return _encode(render(conversation, model).text, model, "messages", add_special_tokens=True)
    return list(conversation_prompt(conversation, model)[0])


def _encode(text: str, model: ServedModel, param: str, *, add_special_tokens: bool) -> list[int]:
    bound = _bound(model)
    try:
        return encode_within(model.tokenizer, text, bound, add_special_tokens=add_special_tokens)
    except TooManyTokens:
        raise RequestError(f"The text has more than {bound} tokens.", param=param) from None


def _bound(model: ServedModel) -> int:
    return max(model.context_length, LEAST_BOUND)


def _piece(token_id: int, model: ServedModel) -> Piece:
    """Return a token with what it adds to a text: a string, or bytes where these are part of a character."""
    piece = model.tokenizer.token_bytes(token_id)
    try:
        return {"id": token_id, "piece": piece.decode()}
    except UnicodeDecodeError:
        return {"id": token_id, "piece": list(piece)}
