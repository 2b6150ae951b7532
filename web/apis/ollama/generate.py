"""The body of `POST /api/generate` as what it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.chat import ChatPrompt
from runtime.chat.conversation import Conversation, Turn
from runtime.errors import RequestError
from web.apis.ollama.answers.models import response_shape
from web.apis.ollama.asked import answer_request, load_request
from web.apis.ollama.conversations import answer_grammar, reasoning_of
from web.apis.ollama.schemas import GenerateBody, parse_body
from web.bodies.json_size import check_json_size
from web.bodies.prompt_tokens import check_token_ids, encode_prompt
from web.generation.ignored import IgnoredFields
from web.generation.infill import Infill, infill_end_ids, infill_prompt
from web.generation.prompts import conversation_prompt
from web.process.limits import MAX_PROMPTS

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel
    from web.apis.ollama.answers.models import AnswerOptions
    from web.apis.ollama.asked import LoadRequest
    from web.bodies.prompt_tokens import TokenIds
    from web.generation.asked import Asked


def parse_generate(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, ignored: IgnoredFields | None = None
) -> Asked[AnswerOptions] | LoadRequest:
    """Parse the body of `POST /api/generate`.

    Args:
        raw: the body.
        model: to be served from.
        max_generations: that the server can hold, which is at least the one of this request.
        ignored: tells of fields that mean nothing.

    Raises:
        RequestError: the body is not valid, or asks for more than the server or the model can hold.
    """
    ignored = ignored or IgnoredFields()
    check_json_size(raw, model.context_length)
    body = parse_body(GenerateBody, raw)
    if not body.prompt and not body.suffix:
        return load_request(body, model, response_shape)
    _check_consistency(body, model)
    text = body.prompt or ""
    plain = ChatPrompt("", grammar=answer_grammar(body, open_objects=model.open_objects))
    if body.raw:
        ids = encode_prompt(text, model, "prompt")
        return answer_request(body, model, ids, response_shape, ignored, prompt=plain, continues=True)
    if body.suffix:
        ids = infill_prompt(Infill(text, body.suffix), model, "suffix")
        return answer_request(
            body,
            model,
            ids,
            response_shape,
            ignored,
            prompt=plain,
            continues=True,
            context=True,
            end_ids=infill_end_ids(model),
        )
    earlier = check_token_ids(tuple(body.context), model, "context") if body.context else ()
    if model.chat is None:
        ids = encode_prompt(text, model, "prompt", add_special_tokens=not earlier)
        ids = _after(earlier, ids, model)
        return answer_request(body, model, ids, response_shape, ignored, prompt=plain, continues=True, context=True)
    system = [Turn("system", body.system)] if body.system else []
    conversation = Conversation(
        [*system, Turn("user", text)],
        reasoning=reasoning_of(body.think),
        answer=answer_grammar(body, open_objects=model.open_objects),
    )
    ids, prompt = conversation_prompt(conversation, model, "prompt")
    ids = _after(earlier, ids, model)
    return answer_request(body, model, ids, response_shape, ignored, prompt=prompt, context=True)


def _check_consistency(body: GenerateBody, model: ServedModel) -> None:
    """Raise RequestError if fields contradict each other, or ask for a chat template where none is used."""
    if body.raw and body.suffix:
        raise RequestError("'raw' and 'suffix' exclude each other.", param="suffix")
    plain = "raw" if body.raw else "suffix" if body.suffix else None
    if plain and body.context:
        raise RequestError(f"'{plain}' and 'context' exclude each other.", param="context")
    for field in ("system", "think"):
        if getattr(body, field) and plain:
            raise RequestError(f"'{plain}' and '{field}' exclude each other.", param=field)
        if getattr(body, field) and model.chat is None:
            raise RequestError(f"This model has no chat template, which '{field}' needs.", param=field)


def _after(earlier: TokenIds, ids: TokenIds, model: ServedModel) -> TokenIds:
    """Return what a prompt is after an earlier one and its answer: a text begins only once."""
    begin = tuple(model.tokenizer.encode("")) if earlier else ()
    if begin and ids[: len(begin)] == begin:
        ids = ids[len(begin) :]
    return check_token_ids(earlier + ids, model, "prompt")
