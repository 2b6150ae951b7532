"""From the bytes of a request body to a `Job`: what the engine is to do, and how to answer.

Everything here is synchronous and has no side effect but a log line, so a long body can be taken to a worker
thread whole.
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from actors.generation import GenerationRequest
from runtime.errors import RequestError
from runtime.log_text import literal
from runtime.sampling import SamplingParams
from web import schemas
from web.replies import ChatFormat, Format, Reply, TextFormat
from web.schemas import ChatBody, CompletionBody, GenerationBody

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.chat import ChatTemplate
    from runtime.served import ServedModel
    from runtime.tokenizer import Tokenizer
    from web.schemas import Message

logger = logging.getLogger("cede.web")

T = TypeVar("T")
TokenIds = tuple[int, ...]

COMPLETION_MAX_TOKENS = 16  # the default of OpenAI's older endpoint; the chat endpoint has none
RESERVED_TEMPLATE_NAMES = frozenset({"messages", "add_generation_prompt"})
MOST_SHOWN = 20  # unknown fields in a log line
OPEN_END = "<<the model continues here>>"  # marks a place in a rendered template, and is cut off again
SAMPLING_FIELDS = (
    "temperature top_k top_p min_p repetition_penalty presence_penalty frequency_penalty min_tokens seed".split()
)


@dataclass(frozen=True, slots=True)
class Job:
    """A request that was understood: what the engine is to do, and how its events become an answer."""

    request: GenerationRequest
    reply: Reply
    format: Format
    stream: bool


def chat_job(raw: bytes, model: ServedModel) -> Job:
    """The job in the body of `POST /v1/chat/completions`.  Raises RequestError."""
    body = schemas.parse(ChatBody, raw)
    rendered = render_chat(body, model)
    prompt = tuple(model.tokenizer.encode(rendered, add_special_tokens=False))  # the template wrote them
    check_prompts([prompt], model, "messages")
    request = generation_request(
        body,
        model,
        "chatcmpl",
        [prompt],
        max_tokens=_chat_max_tokens(body),
        logprobs=_chat_logprobs(body),
        continues=bool(body.continue_final_message),
    )
    return Job(request, reply_to(body, request, model), ChatFormat(), bool(body.stream))


def completion_job(raw: bytes, model: ServedModel) -> Job:
    """The job in the body of `POST /v1/completions`.  Raises RequestError."""
    body = schemas.parse(CompletionBody, raw)
    if body.echo and body.logprobs is not None:
        raise RequestError("'echo' together with 'logprobs' is not supported by this server.", param="echo")
    prompts = prompt_ids(body, model.tokenizer)
    check_prompts(prompts, model, "prompt")
    request = generation_request(
        body,
        model,
        "cmpl",
        prompts,
        max_tokens=body.max_tokens or COMPLETION_MAX_TOKENS,
        logprobs=body.logprobs,
        continues=True,
    )
    echo = prompt_texts(body, model.tokenizer) if body.echo else []
    return Job(request, reply_to(body, request, model, echo), TextFormat(), bool(body.stream))


# --- prompts --------------------------------------------------------------------------------------------


def render_chat(body: ChatBody, model: ServedModel) -> str:
    """The conversation as the model's chat template writes it.  Raises RequestError."""
    if model.chat_template is None:
        raise RequestError("This model has no chat template; use /v1/completions.", param="messages")
    variables = body.chat_template_kwargs or {}
    if clash := RESERVED_TEMPLATE_NAMES & variables.keys():
        raise RequestError(f"'chat_template_kwargs' must not set '{min(clash)}'.", param="chat_template_kwargs")
    messages = [template_message(message, index) for index, message in enumerate(body.messages)]
    if body.continue_final_message:
        return _render_open_ended(messages, body, model.chat_template, variables)
    add_prompt = body.add_generation_prompt is not False
    return model.chat_template.render(messages, add_generation_prompt=add_prompt, **variables)


def _render_open_ended(
    messages: list[dict[str, Any]], body: ChatBody, template: ChatTemplate, variables: dict[str, Any]
) -> str:
    """The conversation up to the end of the last message's content, for the model to go on there."""
    if body.add_generation_prompt:
        raise RequestError(
            "'continue_final_message' and 'add_generation_prompt' exclude each other.",
            param="continue_final_message",
        )
    messages[-1]["content"] += OPEN_END
    shown, mark, _ = template.render(messages, add_generation_prompt=False, **variables).rpartition(OPEN_END)
    if not mark:
        raise RequestError("The chat template hides the last message.", param="continue_final_message")
    return shown


def template_message(message: Message, index: int) -> dict[str, Any]:
    """One message as templates expect it: OpenAI's developer is everyone else's system; content is text."""
    schemas.refuse_unsupported(message, schemas.UNSUPPORTED_IN_MESSAGES, f"messages.{index}.")
    content = message.content
    fields: dict[str, Any] = {
        "role": "system" if message.role == "developer" else message.role,
        "content": content if isinstance(content, str) else "\n".join(part.text for part in content),
    }
    optional = {"name": message.name, "tool_call_id": message.tool_call_id}
    return fields | {name: value for name, value in optional.items() if value is not None}


def prompt_ids(body: CompletionBody, tokenizer: Tokenizer) -> list[TokenIds]:
    """The prompts' token ids, one tuple for each prompt."""
    return [
        tuple(tokenizer.encode(prompt) if isinstance(prompt, str) else prompt) for prompt in _as_prompts(body.prompt)
    ]


def prompt_texts(body: CompletionBody, tokenizer: Tokenizer) -> list[str]:
    """The prompts as text, for `echo`."""
    return [prompt if isinstance(prompt, str) else tokenizer.decode(prompt) for prompt in _as_prompts(body.prompt)]


def _as_prompts(prompt: str | list[str] | list[int] | list[list[int]]) -> list[str | list[int]]:
    if isinstance(prompt, str) or isinstance(prompt[0], int):
        return [prompt]  # the schema let no mixed list through
    return list(prompt)


def check_prompts(prompts: list[TokenIds], model: ServedModel, param: str) -> None:
    """Raises RequestError unless each prompt has tokens, all of them known, and leaves room for one more."""
    for prompt in prompts:
        if not prompt:
            raise RequestError("The prompt is empty.", param=param)
        if min(prompt) < 0 or max(prompt) >= model.vocab_size:
            raise RequestError(f"Token ids must be from 0 to {model.vocab_size - 1}.", param=param)
        if len(prompt) >= model.context_length:
            raise RequestError(
                f"This model's maximum context length is {model.context_length} tokens. However, your "
                f"{param} resulted in {len(prompt)} tokens, and one more is needed for the completion. "
                f"Please reduce the length of the {param}.",
                param=param,
                code="context_length_exceeded",
            )


# --- parameters -----------------------------------------------------------------------------------------


def generation_request(
    body: GenerationBody,
    model: ServedModel,
    prefix: str,
    prompts: list[TokenIds],
    *,
    max_tokens: int | None,
    logprobs: int | None,
    continues: bool,
) -> GenerationRequest:
    """The engine's half of a job.  `max_tokens` is cut to the context, as many clients send a large one."""
    _check_consistency(body, max_tokens)
    room = model.context_length - min(map(len, prompts))
    return GenerationRequest(
        id=f"{prefix}-{uuid.uuid4().hex}",
        prompts=_repeat(prompts, body.n or 1),
        sampling=sampling_params(body, logprobs, model),
        max_tokens=None if max_tokens is None else min(max_tokens, room),
        stop=_stop_strings(body),
        ignore_eos=bool(body.ignore_eos),
        continues=continues,
        cache_prompt=body.cache_prompt is not False,
        speculate=body.speculate is not False,
    )


def reply_to(body: GenerationBody, request: GenerationRequest, model: ServedModel, echo: Iterable[str] = ()) -> Reply:
    """The answering half of a job."""
    if unknown := schemas.unknown_fields(body):
        logger.info("%s: ignored unknown fields: %s", request.id, literal(", ".join(unknown[:MOST_SHOWN])))
    n = body.n or 1
    return Reply(
        id=request.id,
        created=int(time.time()),
        model=body.model or model.name,
        tokenizer=model.tokenizer,
        n=n,
        prompts=request.prompts,
        logprobs=request.sampling.logprobs is not None,
        token_ids=bool(body.return_token_ids),
        include_usage=bool(body.stream_options and body.stream_options.include_usage),
        echo=_repeat(echo, n),
    )


def sampling_params(body: GenerationBody, logprobs: int | None, model: ServedModel) -> SamplingParams:
    """How to pick tokens: as the body says, and where it does not, by the server's defaults."""
    given = {name: value for name in SAMPLING_FIELDS if (value := getattr(body, name)) is not None}
    parameters = model.sampling.values() | given
    top_k = min(max(parameters.pop("top_k"), 0), model.vocab_size)  # JSON's integers may be larger than any float
    bias = _logit_bias(body, model.vocab_size)
    return SamplingParams(**parameters, top_k=top_k, logit_bias=bias, logprobs=logprobs)


def _logit_bias(body: GenerationBody, vocab_size: int) -> tuple[tuple[int, float], ...]:
    bias = {}  # "7" and "07" are one token, which is biased once
    for key, value in (body.logit_bias or {}).items():
        if not (key.isascii() and key.isdigit() and len(key) < 20 and int(key) < vocab_size):
            raise RequestError(
                f"Invalid key {key[:40]!r} in 'logit_bias': token ids are from 0 to {vocab_size - 1}.",
                param="logit_bias",
            )
        bias[int(key)] = value
    return tuple(bias.items())


def _stop_strings(body: GenerationBody) -> tuple[str, ...]:
    return (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())


def _chat_max_tokens(body: ChatBody) -> int | None:
    if None not in (body.max_tokens, body.max_completion_tokens) and body.max_tokens != body.max_completion_tokens:
        raise RequestError("'max_tokens' and 'max_completion_tokens' differ; give one.", param="max_tokens")
    return body.max_completion_tokens or body.max_tokens


def _chat_logprobs(body: ChatBody) -> int | None:
    if body.top_logprobs and not body.logprobs:
        raise RequestError("'top_logprobs' needs 'logprobs' to be true.", param="top_logprobs")
    return (body.top_logprobs or 0) if body.logprobs else None


def _check_consistency(body: GenerationBody, max_tokens: int | None) -> None:
    """Raises RequestError where two parameters contradict each other."""
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise RequestError("'best_of' other than 'n' is not supported by this server.", param="best_of")
    if body.stream_options is not None and not body.stream:
        raise RequestError("'stream_options' needs 'stream' to be true.", param="stream_options")
    if max_tokens is not None and (body.min_tokens or 0) > max_tokens:
        raise RequestError(f"'min_tokens' must not exceed the {max_tokens} of 'max_tokens'.", param="min_tokens")


def _repeat(items: Iterable[T], times: int) -> tuple[T, ...]:
    """Each item `times` times in a row: the choices of one prompt are neighbours."""
    return tuple(item for item in items for _ in range(times))
