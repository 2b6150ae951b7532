"""Answers of the utility endpoints, and what is known of the server, in llama-server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from web.process.version import cede_version

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel


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


def properties(model: ServedModel, slots: int) -> Properties:
    """Return the answer of `GET /props`, without what would tell of the machine, such as the model's path.

    Args:
        model: that is served.
        slots: generations that run at a time.
    """
    name = model.tokenizer.token_text
    begin = model.tokenizer.encode("")
    sampling = model.sampling
    return {
        "default_generation_settings": {
            "n_ctx": model.context_length,
            "params": {
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "top_k": sampling.top_k,
                "min_p": sampling.min_p,
                "repeat_penalty": sampling.repetition_penalty,
            },
        },
        "total_slots": slots,
        "model_alias": model.name,
        "chat_template": None if model.chat is None else model.chat.template.source,
        "bos_token": name(begin[0]) if begin else None,
        "eos_token": name(model.eos_token_ids[0]) if model.eos_token_ids else None,
        "modalities": {"vision": False, "audio": False},
        "build_info": f"cede {cede_version()}",
    }
