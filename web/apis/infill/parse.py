"""Turns the bytes of an infill's body into an `Asked`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.chat import ChatPrompt
from runtime.errors import RequestError
from web.apis.infill.answers import InfillFormatter, InfillOptions
from web.apis.infill.samplers import sampling_fields
from web.apis.infill.schemas import HINTS_IN_INFILL, UNSUPPORTED_IN_INFILL, InfillBody
from web.bodies.json_size import check_json_size
from web.bodies.prompt_tokens import check_generations
from web.bodies.strict_model import parse_model, unknown_fields
from web.generation.asked import Asked
from web.generation.grammars import grammar_of
from web.generation.infill import Infill, infill_prompt, refuse_truncation
from web.generation.openai_format.requests import Settings, check_consistency, generations, openai_request, token_limit
from web.process.limits import MAX_PROMPTS

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel

PARAM = "input_suffix"
"""The field that errors about the gap name."""


def parse_infill(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, settings: Settings | None = None
) -> Asked[InfillOptions]:
    """Parse the body of `POST /infill`.

    Args:
        raw: the body.
        model: to be served from.
        max_generations: that the server can hold.
        settings: how this server answers.

    Raises:
        RequestError: the body is not valid, or asks for more than the server or the model can do.
    """
    settings = settings or Settings()
    check_json_size(raw, model.context_length)
    body = parse_model(InfillBody, raw, UNSUPPORTED_IN_INFILL)
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
