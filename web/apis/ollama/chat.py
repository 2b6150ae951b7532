"""The body of `POST /api/chat` as what it asks for.

Everything in here is synchronous and has no side effect but a log line, so a worker thread can do all of it; the same
holds for `generate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.apis.ollama.answers.models import message_shape
from web.apis.ollama.asked import answer_request, load_request
from web.apis.ollama.conversations import conversation_of
from web.apis.ollama.schemas import ChatBody, parse_body
from web.bodies.json_size import check_json_size
from web.generation.ignored import IgnoredFields
from web.generation.prompts import conversation_prompt
from web.process.limits import MAX_PROMPTS

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel
    from web.apis.ollama.answers.models import AnswerOptions
    from web.apis.ollama.asked import LoadRequest
    from web.generation.asked import Asked


def parse_chat(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, ignored: IgnoredFields | None = None
) -> Asked[AnswerOptions] | LoadRequest:
    """Parse the body of `POST /api/chat`.

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
    body = parse_body(ChatBody, raw)
    if not body.messages:
        return load_request(body, model, message_shape)
    if model.chat is None:
        raise RequestError("This model has no chat template; use /api/generate.", param="messages")
    conversation = conversation_of(body, open_objects=model.open_objects)
    ids, prompt = conversation_prompt(conversation, model)
    return answer_request(
        body, model, ids, message_shape, ignored, prompt=prompt, continues=conversation.continue_final
    )
