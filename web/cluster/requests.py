"""From what the front door asks of a worker to a request of the engine's.

The front door sends token ids and its own names for what OpenAI's API has.  They become the body of a completion, so
that the parser of `/v1/completions` checks them, and the server's defaults hold for what is not said.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runtime.errors import RequestError
from web.bodies.fields import NO_LIMIT
from web.openai.completions.parse import parse_completion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.core.generation import GenerationRequest
    from runtime.loading.served import ServedModel

Json = dict[str, Any]

COUNTS_OUTPUT = ("presence_penalty", "frequency_penalty")
"""What depends on where the prompt ends and the output begins.  A request that goes on at another worker has both in
its prompt, and nothing says where one ends; so what these ask for could not be kept."""

NO_TEXT = ("prompt_embeds", "multi_modal_data", "prefill_result")
"""What a prompt may be made of besides token ids, elsewhere."""


def completion_body(asked: Mapping[str, Any]) -> bytes:
    """The body of a completion that asks for the same.

    Raises:
        RequestError: it asks for something that no completion has.
    """
    for name in NO_TEXT:
        if asked.get(name):
            raise RequestError(f"'{name}' is not supported.", param=name)
    stops = dict(asked.get("stop_conditions") or {})
    if stops.pop("max_thinking_tokens", None) is not None:
        raise RequestError("'max_thinking_tokens' is not supported.", param="max_thinking_tokens")
    sampling = dict(asked.get("sampling_options") or {})
    for name in COUNTS_OUTPUT:
        if sampling.get(name):
            raise RequestError(f"'{name}' is not supported in a cluster: ask a worker at its own address.", param=name)
    shown = asked.get("output_options") or {}
    limit = stops.pop("max_tokens", None)
    body: Json = {
        "prompt": list(asked["token_ids"]),
        "stream": True,
        "max_tokens": NO_LIMIT if limit is None else limit,
        "stop_token_ids": _stop_token_ids(stops, asked.get("eos_token_ids") or ()),
        "structured_outputs": _said(sampling.pop("guided_decoding", None) or {}) or None,
        "logprobs": shown.get("logprobs"),
        "prompt_logprobs": shown.get("prompt_logprobs"),
        "prompt_cache_key": (asked.get("agent_context") or {}).get("session_id"),
    }
    return json.dumps(_said(body | sampling | stops)).encode()


def _stop_token_ids(stops: Json, ends: Any) -> list[int]:  # noqa: ANN401
    """The tokens that the client wants to end the output, of which the front door makes three lists.

    The model's own ends are among them, too, but not for a client who wants to ignore those.
    """
    names = ("stop_token_ids", "stop_token_ids_visible", "stop_token_ids_hidden")
    given = [token for name in names for token in stops.pop(name, None) or ()]
    return [token for token in dict.fromkeys(given) if token not in ends]


def _said(fields: Mapping[str, Any]) -> Json:
    return {name: value for name, value in fields.items() if value is not None and value != []}


def parse_asked(raw: bytes, model: ServedModel, max_generations: int, *, request_id: str) -> GenerationRequest:
    """The request to the engine, under the id that the front door has for it.

    Raises:
        RequestError: it is not valid, or asks for more than the worker or the model can hold.
    """
    parsed = parse_completion(raw, model, max_generations)
    return replace(parsed.request, id=request_id)
