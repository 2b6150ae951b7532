"""A text edited by an instruction: the body, and what it asks for, which is answered as a completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.conversation import Conversation, ReasoningChoice, Turn
from web.apis.openai.completions.answers import TextFormatter
from web.bodies.fields import Text
from web.bodies.json_size import check_json_size
from web.bodies.prompt_tokens import check_generations, kept_tokens
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
from web.generation.openai_format.schemas import HINTS, UNSUPPORTED, GenerationBody
from web.generation.prompts import conversation_prompt
from web.process.limits import MAX_PROMPTS

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel
    from web.generation.openai_format.answers.options import ResponseOptions


class EditBody(GenerationBody):
    """The body of `POST /v1/edits`."""

    instruction: Text
    input: Text | None = None


def parse_edit(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, settings: Settings | None = None
) -> Asked[ResponseOptions]:
    """Parse the body of `POST /v1/edits`.  The model is asked as in a chat, and not to think.

    Args:
        raw: the body.
        model: to be served from.
        max_generations: choices that the server can hold.
        settings: how this server answers.

    Raises:
        RequestError: the body is not valid, or asks for more than the server or the model can hold.
    """
    settings = settings or Settings()
    check_json_size(raw, model.context_length)
    body = parse_model(EditBody, raw, UNSUPPORTED)
    check_generations(1, generations(body), max_generations)
    limit = token_limit(body, default=None)
    check_consistency(body, limit)
    asked = Turn("user", f"{body.instruction}\n\n{body.input}" if body.input else body.instruction)
    conversation = Conversation([asked], reasoning=ReasoningChoice(enabled=False), answer=grammar_of(body))
    keep = kept_tokens(body.truncate_prompt_tokens, model, limit)
    ids, prompt = conversation_prompt(conversation, model, "instruction", keep=keep)
    request = openai_request(body, model, "edit", [ids], prompt, max_tokens=limit, logprobs=None)
    settings.ignored.tell(request.id, unknown_fields(body, HINTS, UNSUPPORTED))
    options = response_options(body, request, model, parser=prompt.parser)
    return Asked(request, options, bool(body.stream), TextFormatter)
