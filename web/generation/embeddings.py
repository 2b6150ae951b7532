"""Texts as vectors, whatever the API: a batch of prompts, of which as many are read at a time as there are slots."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.core.generation import Failed, Finished, GenerationRequest
from actors.core.receipts import CancelReason
from runtime.errors import CedeError, RequestError
from runtime.sampling.params import SamplingParams
from runtime.step.prompt_rows.pooled import normalised
from runtime.step.prompt_rows.wanted import Pooling, PromptOutputs
from web.bodies.prompt_tokens import check_token_ids, encode_prompt
from web.bodies.responses import paged_json_response, response_backlog
from web.http.asgi import current_request
from web.process.limits import MAX_INPUTS

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Sequence

    from quart_trio.wrappers import TrioResponse as Response

    from actors.core.generation import Event
    from actors.generating.unread import Backlog
    from actors.request import Request
    from runtime.loading.served import ServedModel
    from web.bodies.json_encoding import JsonObject
    from web.bodies.prompt_tokens import TokenIds
    from web.generation.responder import Responder


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """A body that was understood.

    Attributes:
        prompts: token ids, one tuple for each input.
        pooling: how their states become vectors.
        normalise: whether vectors get the length 1 (L2).
        answer: makes the response object of the vectors, in order.
        priority: the lower, the earlier.
    """

    prompts: tuple[TokenIds, ...]
    pooling: Pooling
    normalise: bool
    answer: Callable[[list[array[float]]], JsonObject]
    priority: int = 0

    @property
    def num_tokens(self) -> int:
        """Tokens of all inputs."""
        return sum(map(len, self.prompts))


class Embedder:
    """Answers embedding requests.

    A batch is read in slices of as many inputs as there are slots, each an engine's request of its own: so a large one
    never has more of the queue than that, and others have their turn between any two slices.  If the client hangs up,
    what runs is cancelled as any request is, and leaves its receipts; the slices after it never begin.  A slice that
    the queue or the limits of the client's key do not let in ends the batch.

    Args:
        responder: reads the bodies.
    """

    def __init__(self, responder: Responder) -> None:
        self._responder = responder
        self._engine = responder.engine

    async def __call__(self, parse: Callable[[bytes, ServedModel, int], EmbeddingRequest]) -> Response:
        """Answer the current request, whose body `parse` understands."""
        asked = await self._responder.parse_body(parse)
        http_request = current_request()
        http_request.generation_id = name = f"embd-{uuid.uuid4().hex}"
        backlog = response_backlog(self._engine.unread, "request")
        vectors: list[array[float]] = []
        size = self._engine.config.slots
        for start in range(0, len(asked.prompts), size):
            prompts = asked.prompts[start : start + size]
            request = GenerationRequest(
                f"{name}-{start}" if start else name,
                prompts,
                SamplingParams(),
                max_tokens=0,
                outputs=PromptOutputs(asked.pooling),
                priority=asked.priority,
            )
            async with self._responder.open(request) as running:
                vectors += await _vectors(running, len(prompts), backlog, normalise=asked.normalise)
        return await paged_json_response(asked.answer(vectors), backlog, self._responder.write_bytes)


async def _vectors(request: Request, inputs: int, backlog: Backlog, *, normalise: bool) -> list[array[float]]:
    """Return the vectors of a slice; the backlog counts their bytes until they are sent.

    Each is normalised as it comes: those of all slices at once would keep everybody else waiting.

    Raises:
        CedeError: one failed or was cancelled, or too much waits to be sent.
    """
    found: dict[int, array[float]] = {}
    backlog.on_cut = lambda error: request.cancel(CancelReason.STALLED_READER)
    async for event in request:
        backlog.check()
        try:
            vector = _vector(event)
        except CedeError:
            request.cancel(CancelReason.FAULT)  # no use in reading the other inputs
            raise
        found[event.index] = normalised(vector) if normalise else vector
        backlog.set_size(backlog.held + len(vector) * vector.itemsize)
    backlog.check()
    return [found[index] for index in range(inputs)]


def _vector(event: Event) -> array[float]:
    if isinstance(event, Failed):
        raise event.error
    assert isinstance(event, Finished), "no tokens are drawn, and no scores are wanted"
    if event.vector is None:
        raise CedeError(f"the request was cancelled: {event.cancelled}")
    return event.vector


def input_ids(inputs: Sequence[str | list[int]], model: ServedModel, param: str) -> tuple[TokenIds, ...]:
    """Return the token ids of each input.

    Args:
        inputs: texts, or token ids.
        model: to be served from.
        param: the field of the body that errors name.

    Raises:
        RequestError: there are too many of them; or one is empty, does not fit into the context, or holds unknown ids.
    """
    if len(inputs) > MAX_INPUTS:
        raise RequestError(f"'{param}' has {len(inputs)} inputs; at most {MAX_INPUTS} are possible.", param=param)
    return tuple(
        encode_prompt(one, model, param) if isinstance(one, str) else check_token_ids(tuple(one), model, param)
        for one in inputs
    )


def check_dimensions(dimensions: int | None, model: ServedModel) -> None:
    """Check that nobody asks for shorter vectors: to cut them off is honest only for a model that was trained for it.

    Raises:
        RequestError: somebody does.
    """
    size = model.facts.hidden_size
    if dimensions not in (None, size):
        raise RequestError(
            f"'dimensions' is not supported: vectors of this model have {size} numbers, and cut short they would mean "
            "less than those of a model that was trained for it.",
            param="dimensions",
            code="unsupported_parameter",
        )


def pooling_of(model: ServedModel) -> Pooling:
    """Return how states become a vector.

    Raises:
        RequestError: the server was started without embeddings.
    """
    if model.pooling is None:
        raise RequestError("This server computes no embeddings: it was started with --pooling none.", code="no_pooling")
    return model.pooling
