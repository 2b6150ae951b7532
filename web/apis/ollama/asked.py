"""Meaning of a body: an answer is asked for, or only that the model is there."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.apis.ollama.answers import AnswerFormatter, AnswerOptions
from web.apis.ollama.schemas import Options, check_penalties, ignored_fields, max_tokens, plain_fields
from web.bodies.json_encoding import dumps
from web.bodies.strict_model import known_fields
from web.generation.asked import Asked, generation_request

if TYPE_CHECKING:
    from runtime.chat.chat import ChatPrompt
    from runtime.loading.served import ServedModel
    from web.apis.ollama.answers import Answer, AnswerShape
    from web.apis.ollama.schemas import GenerationBody
    from web.bodies.prompt_tokens import TokenIds
    from web.generation.passed_over import IgnoredFields


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A body without a prompt: by it clients of Ollama have a model loaded before they need it, or unloaded.

    Attributes:
        options: how to answer.
        stream: whether to answer with a line.
    """

    options: AnswerOptions
    stream: bool

    def answer(self) -> Answer:
        """Return the answer: the model is loaded."""
        return self.options.answer({"done": True, "done_reason": "load"})


def load_request(body: GenerationBody, model: ServedModel, shape: AnswerShape) -> LoadRequest:
    """Make the request for a body without a prompt.

    With `keep_alive: 0` Ollama would unload the model, and answer `unload`.  Here the model stays, and the answer says
    so.
    """
    options = AnswerOptions("", body.model or model.name, shape, model.tokenizer)
    return LoadRequest(options, body.stream is not False)


def answer_request(
    body: GenerationBody,
    model: ServedModel,
    ids: TokenIds,
    shape: AnswerShape,
    ignored: IgnoredFields,
    *,
    prompt: ChatPrompt,
    continues: bool = False,
    context: bool = False,
    end_ids: tuple[int, ...] = (),
) -> Asked[AnswerOptions]:
    """Make the request for a prompt.

    Args:
        body: of either endpoint.
        model: to be served from.
        ids: the prompt's.
        shape: of the endpoint's answers.
        ignored: tells of fields that mean nothing.
        prompt: how the answer is to be read, and what it must be.
        continues: whether the text goes on where the prompt ends.
        context: whether the answer ends with all ids.
        end_ids: further tokens that end the answer.

    Raises:
        RequestError: the options contradict each other, or ask for what cede does not do.
    """
    options = body.options or Options()
    if body.top_logprobs and not body.logprobs:
        raise RequestError("'top_logprobs' needs 'logprobs' to be true.", param="top_logprobs")
    request = generation_request(
        known_fields(body) | plain_fields(options),
        model,
        f"ollama-{uuid.uuid4().hex}",
        [ids],
        prompt,
        max_tokens=max_tokens(options, model.sampling.max_tokens),
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        continues=continues,
        further_ends=end_ids,
    )
    check_penalties(options, request.sampling)
    ignored.tell(request.id, ignored_fields(body))
    answer = AnswerOptions(
        id=request.id,
        model=body.model or model.name,
        shape=shape,
        tokenizer=model.tokenizer,
        parser=prompt.parser,
        logprobs=bool(body.logprobs),
        context=dumps(ids)[1:-1] if context else None,
        started=time.time(),
    )
    return Asked(request, answer, body.stream is not False, AnswerFormatter)
