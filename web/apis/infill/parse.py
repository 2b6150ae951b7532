"""Turns the bytes of a body into an `Asked`: llama-server's, and Mistral's, which is answered as a chat."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runtime.chat.chat import ChatPrompt
from runtime.errors import RequestError
from web.apis.infill.answers import InfillFormatter, InfillOptions
from web.apis.infill.schemas import HINTS_IN_INFILL, UNSUPPORTED_IN_INFILL, FimBody, InfillBody
from web.bodies.prompt_tokens import check_generations, kept_tokens
from web.bodies.strict_model import parse_model, unknown_fields
from web.generation.asked import Asked
from web.generation.grammars import grammar_of
from web.generation.infill import Infill, infill_prompt, prompt_ids, refuse_truncation
from web.generation.openai_format.chat.answers import ChatFormatter
from web.generation.openai_format.requests import (
    Settings,
    check_consistency,
    generations,
    openai_request,
    response_options,
    token_limit,
)
from web.generation.openai_format.schemas import HINTS, UNSUPPORTED
from web.process.limits import MAX_PROMPTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.loading.served import ServedModel
    from web.generation.openai_format.answers.options import ResponseOptions

PARAM = "input_suffix"
"""The field that errors about the gap name."""


def parse_infill(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, settings: Settings | None = None
) -> Asked[InfillOptions]:
    """Parse the body of `POST /infill`; a `responder.ParseFunction`, with how this server answers."""
    settings = settings or Settings()
    body = parse_model(InfillBody, raw, UNSUPPORTED_IN_INFILL, model.context_length)
    if generations(body) > 1:
        raise RequestError("A gap is filled once: 'n' and 'best_of' must be 1.", param="n")
    check_generations(1, 1, max_generations)
    limit = token_limit(body, default=model.sampling.max_tokens)
    check_consistency(body, limit)
    body = body.model_copy(update=sampling_fields(body.samplers))
    refuse_truncation(body.truncate_prompt_tokens)
    files = [(file.filename or "", file.text) for file in body.input_extra or ()]
    infill = Infill(body.input_prefix, body.input_suffix, body.prompt or "", files)
    ids = infill_prompt(infill, model, PARAM, room=limit or 1)
    request = openai_request(
        body,
        model,
        "infill",
        [ids],
        ChatPrompt("", grammar=grammar_of(body)),
        max_tokens=limit,
        logprobs=body.n_probs or None,
        continues=True,
        fills=True,
    )
    settings.ignored.tell(request.id, unknown_fields(body, HINTS_IN_INFILL, UNSUPPORTED_IN_INFILL))
    options = InfillOptions(
        model=body.model or model.name,
        tokenizer=model.tokenizer,
        prompt_tokens=len(ids),
        logprobs=bool(body.n_probs),
        tokens=bool(body.return_tokens),
        fields=tuple(body.response_fields or ()),
    )
    return Asked(request, options, bool(body.stream), InfillFormatter)


def parse_fim(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, settings: Settings | None = None
) -> Asked[ResponseOptions]:
    """Parse the body of `POST /v1/fim/completions`; a `responder.ParseFunction`, with how this server answers.

    Without a suffix the text simply goes on, as in Mistral's API.
    """
    settings = settings or Settings()
    body = parse_model(FimBody, raw, UNSUPPORTED, model.context_length)
    if body.random_seed is not None:
        if body.seed is not None:
            raise RequestError("'seed' and 'random_seed' are one: give one.", param="random_seed")
        body = body.model_copy(update={"seed": body.random_seed})
    check_generations(1, generations(body), max_generations)
    limit = token_limit(body, default=model.sampling.max_tokens)
    check_consistency(body, limit)
    keep = kept_tokens(body.truncate_prompt_tokens, model, limit)
    request = openai_request(
        body,
        model,
        "fim",
        [prompt_ids(body.prompt, body.suffix, model, keep=keep)],
        ChatPrompt("", grammar=grammar_of(body)),
        max_tokens=limit,
        logprobs=None,
        continues=True,
        fills=bool(body.suffix),
    )
    settings.ignored.tell(request.id, unknown_fields(body, HINTS, UNSUPPORTED))
    options = response_options(body, request, model)
    # Mistral's streams end with a chunk that has both the reason and the usage.
    options = replace(options, reasoning=settings.reasoning, running_usage=True)
    return Asked(request, options, bool(body.stream), ChatFormatter)


# --- llama-server's `samplers`: which of the filters apply ------------------------------------------------------------

INFILL = "infill"
"""llama.cpp's sampler for gaps, which leaves few of the likeliest tokens: here the likeliest is drawn."""

NEUTRAL: dict[str, dict[str, float]] = {
    "temperature": {"temperature": 1.0},
    "top_k": {"top_k": 0},
    "top_p": {"top_p": 1.0},
    "min_p": {"min_p": 0.0},
    "penalties": {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0},
}
"""The fields of each sampler that cede has, with the values that turn it off."""


def sampling_fields(samplers: Sequence[str] | None) -> dict[str, Any]:
    """Return the fields of a body that its list of samplers overrules; their order is cede's own.

    Args:
        samplers: their names; None for all.  The others of llama-server's are off unless their own fields turn them on,
            which is refused.
    """
    if samplers is None:
        return {}
    off: dict[str, Any] = {}
    for name, fields in NEUTRAL.items():
        if name not in samplers:
            off |= fields
    return off | {"temperature": 0.0} if INFILL in samplers else off
