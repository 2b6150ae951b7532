"""Turns the bytes of Mistral's body into an `Asked`, which is answered as a chat."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.chat.chat import ChatPrompt
from runtime.errors import RequestError
from web.apis.infill.schemas import FimBody
from web.bodies.json_size import check_json_size
from web.bodies.prompt_tokens import check_generations, encode_prompt, kept_tokens
from web.bodies.strict_model import parse_model, unknown_fields
from web.generation.asked import Asked
from web.generation.grammars import grammar_of
from web.generation.infill import Infill, infill_prompt, refuse_truncation
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
    from runtime.loading.served import ServedModel
    from web.generation.openai_format.answers.options import ResponseOptions


def parse_fim(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, settings: Settings | None = None
) -> Asked[ResponseOptions]:
    """Parse the body of `POST /v1/fim/completions`; a `responder.ParseFunction`, with how this server answers.

    Without a suffix the text simply goes on, as in Mistral's API.
    """
    settings = settings or Settings()
    check_json_size(raw, model.context_length)
    body = parse_model(FimBody, raw, UNSUPPORTED)
    if body.random_seed is not None:
        if body.seed is not None:
            raise RequestError("'seed' and 'random_seed' are one: give one.", param="random_seed")
        body = body.model_copy(update={"seed": body.random_seed})
    check_generations(1, generations(body), max_generations)
    limit = token_limit(body, default=model.sampling.max_tokens)
    check_consistency(body, limit)
    fills = bool(body.suffix)
    keep = kept_tokens(body.truncate_prompt_tokens, model, limit)
    if fills:
        refuse_truncation(keep)
    ids = (
        infill_prompt(Infill(body.prompt, body.suffix or ""), model, "suffix")
        if fills
        else encode_prompt(body.prompt, model, "prompt", keep=keep)
    )
    request = openai_request(
        body,
        model,
        "fim",
        [ids],
        ChatPrompt("", grammar=grammar_of(body)),
        max_tokens=limit,
        logprobs=None,
        continues=True,
        fills=fills,
    )
    settings.ignored.tell(request.id, unknown_fields(body, HINTS, UNSUPPORTED))
    options = response_options(body, request, model)
    # Mistral's streams end with a chunk that has both the reason and the usage.
    options = replace(options, reasoning=settings.reasoning, running_usage=True)
    return Asked(request, options, bool(body.stream), ChatFormatter)
