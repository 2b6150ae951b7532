"""Turns the bytes of a completion's body into an `Asked`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.chat import ChatPrompt
from web.apis.openai.completions.answers import TextFormatter
from web.apis.openai.completions.prompts import prompt_ids, prompt_texts
from web.apis.openai.completions.schema import CompletionBody
from web.bodies.json_size import check_json_size
from web.bodies.prompt_tokens import check_generations, kept_tokens, split_prompts
from web.bodies.strict_model import parse_model, unknown_fields
from web.generation.asked import Asked
from web.generation.grammars import grammar_of
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

COMPLETION_MAX_TOKENS = 16
"""Default of `max_tokens` at OpenAI's older endpoint.  The chat endpoint has none."""


def parse_completion(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, settings: Settings | None = None
) -> Asked[ResponseOptions]:
    """Parse the body of `POST /v1/completions`.

    Args:
        raw: the body.
        model: to be served from.
        max_generations: prompts times choices that the server can hold.
        settings: how this server answers.

    Raises:
        RequestError: the body is not valid, or asks for more than the server or the model can hold.
    """
    settings = settings or Settings()
    check_json_size(raw, model.context_length)
    body = parse_model(CompletionBody, raw, UNSUPPORTED)
    prompts = split_prompts(body.prompt)
    check_generations(len(prompts), generations(body), max_generations)
    max_tokens = token_limit(body, default=COMPLETION_MAX_TOKENS)
    check_consistency(body, max_tokens)
    keep = kept_tokens(body.truncate_prompt_tokens, model, max_tokens)
    echo_logprobs = body.logprobs if body.echo else None
    request = openai_request(
        body,
        model,
        "cmpl",
        [prompt_ids(prompt, body.suffix, model, keep=keep) for prompt in prompts],
        ChatPrompt("", grammar=grammar_of(body)),
        max_tokens=max_tokens,
        logprobs=body.logprobs,
        continues=True,
        echo_logprobs=echo_logprobs,
        fills=bool(body.suffix),
    )
    settings.ignored.tell(request.id, unknown_fields(body, HINTS, UNSUPPORTED))
    echo = prompt_texts(prompts, model.tokenizer) if body.echo else []
    logprobs = body.logprobs is not None
    options = response_options(body, request, model, echo, logprobs=logprobs, echo_logprobs=echo_logprobs)
    return Asked(request, options, bool(body.stream), TextFormatter)
