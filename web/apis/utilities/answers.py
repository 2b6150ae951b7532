"""Answers of the utility endpoints, for the OpenAPI document.  A field with a default may be left out."""

from __future__ import annotations

from pydantic import Field

from web.openapi.operations import Answer


class Piece(Answer):
    """A token and what it adds to a text."""

    id: int
    piece: str | list[int] = Field(description="Bytes where it is part of a character.")


class Tokens(Answer):
    """The tokens of a text or of a chat: llama-server's answer to `content`, vLLM's to `prompt` and `messages`."""

    tokens: list[int] | list[Piece]
    count: int | None = None
    max_model_len: int | None = None
    token_strs: list[str] | None = None


class Detokenized(Answer):
    """The text of tokens, under llama-server's name and vLLM's."""

    content: str
    prompt: str


class AppliedTemplate(Answer):
    """The prompt that the chat template makes of a chat."""

    prompt: str


class SamplingParameters(Answer):
    """Sampling of requests that do not say how."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repeat_penalty: float


class GenerationSettings(Answer):
    """Settings that hold for each slot."""

    n_ctx: int
    params: SamplingParameters


class Modalities(Answer):
    """Modalities of a prompt beside text."""

    vision: bool
    audio: bool


class Properties(Answer):
    """Properties of the server."""

    default_generation_settings: GenerationSettings
    total_slots: int
    model_alias: str
    chat_template: str | None
    bos_token: str | None
    eos_token: str | None
    modalities: Modalities
    build_info: str


class Version(Answer):
    """The version of cede."""

    version: str
