"""The request bodies of the utility endpoints, as strict pydantic models; null stands for "not given"."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from web.bodies.fields import Name, Text, TokenIds
from web.bodies.strict_model import StrictModel, show_unsupported
from web.generation.openai_format.chat.schema import Message
from web.process.limits import MAX_MESSAGES


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
