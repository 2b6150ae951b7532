"""Sampling parameters: the fields of a body that say them, and what comes of those over the server's defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.errors import RequestError
from runtime.sampling.params import SamplingParams
from web.bodies.fields import MinP, Seed, Temperature, TopK, TopP
from web.bodies.strict_model import StrictModel
from web.process.limits import MAX_DIGITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime.loading.served import ServedModel

SAMPLING_FIELDS = (
    "temperature top_k top_p min_p repetition_penalty presence_penalty frequency_penalty min_tokens seed".split()
)
"""Fields of a body that are sampling parameters under the same name."""


class SamplingFields(StrictModel):
    """Sampling parameters that every API has."""

    temperature: Temperature | None = None
    top_k: TopK | None = None
    top_p: TopP | None = None
    min_p: MinP | None = None
    seed: Seed | None = None


def sampling_params(
    fields: Mapping[str, Any],
    model: ServedModel,
    logprobs: int | None = None,
    logit_bias: Mapping[str, float] | None = None,
) -> SamplingParams:
    """Make the sampling parameters: the server's defaults, and over them what the body says.

    Args:
        fields: of the body, validated; those of `SAMPLING_FIELDS` count, where they are not None.
        model: to be served from.
        logprobs: alternatives to show for each token; None for no log-probabilities.
        logit_bias: by token id, as a JSON object has it.

    Raises:
        RequestError: a key of `logit_bias` is no token id.
    """
    given = {name: value for name in SAMPLING_FIELDS if (value := fields.get(name)) is not None}
    parameters = model.sampling.values() | given
    top_k = min(max(parameters.pop("top_k"), 0), model.vocab_size)  # JSON's integers may be larger than any float
    bias = _logit_bias(logit_bias or {}, model.vocab_size)
    return SamplingParams(**parameters, top_k=top_k, logit_bias=bias, logprobs=logprobs)


def end_ids(given: Sequence[int] | None, model: ServedModel, param: str = "stop_token_ids") -> tuple[int, ...]:
    """Return the further tokens that end an output, each once.

    Raises:
        RequestError: one is not in the vocabulary.
    """
    return _known_ids(given or (), model, param)


def bad_words(
    words: Sequence[str] | None, model: ServedModel, *, chosen: bool, param: str = "bad_words"
) -> tuple[tuple[int, ...], ...]:
    """Return the sequences of tokens that words are written with, each once.

    Each is written as the tokenizer does at the beginning of a text and behind a space, as in vLLM.

    Args:
        words: none of them empty.
        model: to be served from.
        chosen: something else says already what may be drawn, and both together might leave nothing.
        param: the field of the body that errors name.

    Raises:
        RequestError: they are not alone, one is blank, or they might leave nothing to draw.
    """
    if not words:
        return ()
    if chosen:
        raise RequestError(f"'{param}' cannot go together with a format, tools or 'allowed_token_ids'.", param=param)
    spelled: dict[tuple[int, ...], None] = {}
    for word in words:
        for text in (word, f" {word.lstrip()}"):
            if ids := tuple(model.tokenizer.encode(text, add_special_tokens=False)):
                spelled[ids] = None
    if len({ids[-1] for ids in spelled}) + len(model.eos_token_ids) >= model.vocab_size:
        raise RequestError(f"'{param}' leave no token that may be drawn.", param=param)
    return tuple(spelled)


def allowed_ids(
    given: Sequence[int] | None, model: ServedModel, *, has_grammar: bool, param: str = "allowed_token_ids"
) -> tuple[int, ...]:
    """Return the tokens that may be drawn, each once; none for all of them.

    Raises:
        RequestError: one is not in the vocabulary, or a grammar says already what may be drawn.
    """
    if given and has_grammar:
        raise RequestError(f"'{param}' cannot go together with a format or with tools.", param=param)
    return _known_ids(given or (), model, param)


def _known_ids(ids: Sequence[int], model: ServedModel, param: str) -> tuple[int, ...]:
    if ids and max(ids) >= model.vocab_size:
        raise RequestError(f"Token ids in '{param}' must be from 0 to {model.vocab_size - 1}.", param=param)
    return tuple(dict.fromkeys(ids))


def _logit_bias(given: Mapping[str, float], vocab_size: int) -> tuple[tuple[int, float], ...]:
    bias = {}  # "7" and "07" are the same token, which is biased once
    for key, value in given.items():
        if not (key.isascii() and key.isdigit() and len(key) < MAX_DIGITS and int(key) < vocab_size):
            raise RequestError(
                f"Invalid key {key[:40]!r} in 'logit_bias': token ids are from 0 to {vocab_size - 1}.",
                param="logit_bias",
            )
        bias[int(key)] = value
    return tuple(bias.items())
