"""Answers of the utility endpoints."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict


class Piece(TypedDict):
    """A token and what it adds to a text."""

    id: int
    piece: Annotated[str | list[int], Field(description="Bytes where it is part of a character.")]


class Tokens(TypedDict):
    """The tokens of a text or of a chat: llama-server's answer to `content`, vLLM's to `prompt` and `messages`."""

    tokens: list[int] | list[Piece]
    count: NotRequired[int]
    max_model_len: NotRequired[int]
    token_strs: NotRequired[list[str] | None]


class Detokenized(TypedDict):
    """The text of tokens, under llama-server's name and vLLM's."""

    content: str
    prompt: str


class AppliedTemplate(TypedDict):
    """The prompt that the chat template makes of a chat."""

    prompt: str


class SamplingParameters(TypedDict):
    """Sampling of requests that do not say how."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repeat_penalty: float


class GenerationSettings(TypedDict):
    """Settings that hold for each slot."""

    n_ctx: int
    params: SamplingParameters


class Modalities(TypedDict):
    """Modalities of a prompt beside text."""

    vision: bool
    audio: bool


class Properties(TypedDict):
    """Properties of the server."""

    default_generation_settings: GenerationSettings
    total_slots: int
    model_alias: str
    chat_template: str | None
    bos_token: str | None
    eos_token: str | None
    modalities: Modalities
    build_info: str


class Version(TypedDict):
    """The version of cede."""

    version: str
