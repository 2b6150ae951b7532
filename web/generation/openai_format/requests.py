"""Turns a request's body, of either endpoint, into an `Asked`: what the engine is to do, and how to answer.

Everything in here is synchronous and has no side effect but a log line, so a worker thread can do all of it.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from runtime.chat.parts import PlainParser
from runtime.errors import RequestError
from runtime.step.prompt_rows.wanted import PromptOutputs
from web.bodies.fields import NO_LIMIT
from web.bodies.strict_model import known_fields
from web.generation.asked import generation_request
from web.generation.infill import infill_end_ids
from web.generation.openai_format.answers.options import ReasoningField, ResponseOptions
from web.generation.openai_format.schemas import StreamOptions
from web.generation.passed_over import IgnoredFields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from actors.core.generation import GenerationRequest
    from runtime.chat.chat import ChatPrompt
    from runtime.chat.parts import OutputParser
    from runtime.loading.served import ServedModel
    from web.bodies.prompt_tokens import TokenIds
    from web.generation.openai_format.schemas import GenerationBody

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of how this server speaks OpenAI's API.

    Attributes:
        reasoning: the field of answers for what the model thinks.
        ignored: tells of fields that mean nothing.
        stores: whether there is a place to store chats in.
    """

    reasoning: ReasoningField = "reasoning_content"
    ignored: IgnoredFields = field(default_factory=IgnoredFields)
    stores: bool = False


# --- the engine's part ------------------------------------------------------------------------------------------------


def openai_request(
    body: GenerationBody,
    model: ServedModel,
    prefix: str,
    prompts: Sequence[TokenIds],
    prompt: ChatPrompt,
    *,
    max_tokens: int | None,
    logprobs: int | None,
    echo_logprobs: int | None = None,
    fills: bool = False,
    **more: Any,  # noqa: ANN401
) -> GenerationRequest:
    """Make the request to the engine; see `web.generation.asked.generation_request`.

    Args:
        body: of either endpoint.
        model: to be served from.
        prefix: of the request's id.
        prompts: token ids, of each prompt once.
        prompt: how the answer is to be read, and what it must be.
        max_tokens: the client's limit; None for all that there is room.
        logprobs: alternatives to show for each token; None for no log-probabilities.
        echo_logprobs: alternatives to show for each token of the prompt, as in the answer; None for none at all.
        fills: whether the text fills a gap, and so ends where the model takes up what stands behind it.
        more: fields of the request.
    """
    return generation_request(
        known_fields(body),
        model,
        f"{prefix}-{uuid.uuid4().hex}",
        repeat(prompts, generations(body)),
        prompt,
        max_tokens=max_tokens,
        logprobs=0 if logprobs is None and ranks(body) else logprobs,  # by their own, the best are found
        further_ends=infill_end_ids(model) if fills and not body.ignore_eos else (),
        outputs=PromptOutputs(alternatives=_prompt_alternatives(body, echo_logprobs)),
        **more,
    )


def _prompt_alternatives(body: GenerationBody, echo_logprobs: int | None) -> int | None:
    """Return how many alternatives to each token of the prompt are asked for; None for no log-probabilities."""
    asked = [number for number in (echo_logprobs, body.prompt_logprobs) if number is not None]
    return max(asked, default=None)


def generations(body: GenerationBody) -> int:
    """Return how many generations each prompt gets: `best_of` of which `n` are shown, or `n`."""
    return body.best_of or body.n or 1


def ranks(body: GenerationBody) -> bool:
    """Return whether some of the generations are not shown."""
    return generations(body) > (body.n or 1)


def token_limit(body: GenerationBody, completion: int | None = None, *, default: int | None) -> int | None:
    """Return the limit that was given under any of its names; None for as many tokens as the context has room for.

    Raises:
        RequestError: there are two limits, and they differ.
    """
    names = {"max_tokens": body.max_tokens, "max_completion_tokens": completion, "n_predict": body.n_predict}
    given = {name: value for name, value in names.items() if value is not None}
    if len(set(given.values())) > 1:
        raise RequestError(f"{' and '.join(map(repr, given))} differ; give one.", param=next(iter(given)))
    limit = next(iter(given.values()), default)
    return None if limit == NO_LIMIT else limit


def check_consistency(body: GenerationBody, max_tokens: int | None) -> None:
    """Raise RequestError if two parameters contradict each other."""
    if body.best_of is not None and body.best_of < (body.n or 1):
        raise RequestError(f"'best_of' must not be less than the {body.n} of 'n'.", param="best_of")
    if ranks(body) and body.stream:
        raise RequestError(
            "'best_of' greater than 'n' cannot be streamed: the best is known at the end.", param="best_of"
        )
    if body.prompt_logprobs is not None and body.stream:
        raise RequestError("'prompt_logprobs' cannot be streamed.", param="prompt_logprobs")
    if body.stream_options is not None and not body.stream:
        raise RequestError("'stream_options' needs 'stream' to be true.", param="stream_options")
    if max_tokens is not None and (body.min_tokens or 0) > max_tokens:
        raise RequestError(f"'min_tokens' must not exceed the {max_tokens} of 'max_tokens'.", param="min_tokens")


# --- the response's part ----------------------------------------------------------------------------------------------


def response_options(
    body: GenerationBody,
    request: GenerationRequest,
    model: ServedModel,
    echo: Iterable[str] = (),
    parser: Callable[[], OutputParser] = PlainParser,
    *,
    logprobs: bool = False,
    echo_logprobs: int | None = None,
) -> ResponseOptions:
    """Make the options for the response.

    Args:
        body: of either endpoint.
        request: made from it.
        model: to be served from.
        echo: the prompts as text, if they are to be shown.
        parser: makes the parser of a choice's text.
        logprobs: whether to show log-probabilities.
        echo_logprobs: as in `openai_request`.
    """
    stream = body.stream_options or StreamOptions()
    n = generations(body)
    return ResponseOptions(
        id=request.id,
        created=int(time.time()),
        model=body.model or model.name,
        tokenizer=model.tokenizer,
        n=n,
        prompts=request.prompts,
        shown=body.n or 1,
        logprobs=logprobs,
        echo_logprobs=echo_logprobs,
        prompt_logprobs=body.prompt_logprobs,
        token_ids=bool(body.return_token_ids),
        include_usage=bool(stream.include_usage),
        running_usage=bool(stream.continuous_usage_stats),
        echo=repeat(echo, n),
        parser=parser,
        fingerprint=fingerprint(model),
        predicted=bool(request.prediction),
    )


def fingerprint(model: ServedModel) -> str:
    """Return OpenAI's `system_fingerprint`: the same for as long as the model stays loaded as it is."""
    return "fp_" + hashlib.blake2b(f"{model.name}/{model.created}".encode(), digest_size=6).hexdigest()


def repeat(items: Iterable[T], times: int) -> tuple[T, ...]:
    """Repeat each item `times` times in a row, because the choices of one prompt stand next to each other."""
    return tuple(item for item in items for _ in range(times))
