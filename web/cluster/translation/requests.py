"""Requests of the engine, from what the front door asks of a worker.

The front door sends token ids and its own names for what OpenAI's API has.  They become the body of a completion, so
that the parser of `/v1/completions` checks them, and the server's defaults hold for what is not said.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from actors.control import NO_CONTROL, Control
from runtime.errors import RequestError
from web.apis.openai.completions import parse_completion
from web.bodies.fields import NO_LIMIT
from web.bodies.strict_model import parse_model
from web.cluster.translation.output_mark import is_marked, without_mark
from web.generation.control.fields import ControlFields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.core.generation import GenerationRequest
    from runtime.loading.served import ServedModel

Json = dict[str, Any]

NO_TEXT = ("prompt_embeds", "multi_modal_data", "prefill_result")
"""What a prompt may be made of besides token ids, elsewhere."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Request of the front door, first or after another worker.

    Attributes:
        id: the front door's.
        fields: in Dynamo's words.
        token_ids: of the prompt, and of what has been sent of the output.
        is_marked: whether the output has a mark (`web.cluster.translation.output_mark`).
        emitted: how many of the tokens are known to be output.
    """

    id: str
    fields: Mapping[str, Any]
    token_ids: Sequence[int]
    is_marked: bool = False
    emitted: int = 0

    @classmethod
    def read(cls, request_id: str, fields: Mapping[str, Any], vocab_size: int) -> Self:
        """Take the mark out, where there is one."""
        if not is_marked(fields):
            return cls(request_id, fields, fields["token_ids"])
        token_ids, emitted = without_mark(fields["token_ids"], vocab_size)
        return cls(request_id, fields, token_ids, is_marked=True, emitted=emitted)


def completion_body(asked: Asked, limit: int | None = None) -> bytes:
    """The body of a completion that asks for the same.

    Args:
        asked: at the front door.
        limit: of an answer for which the client has given none; None for no limit.

    Raises:
        RequestError: it asks for something that no completion has.
    """
    fields = asked.fields
    for name in NO_TEXT:
        if fields.get(name):
            raise RequestError(f"'{name}' is not supported.", param=name)
    stops = dict(fields.get("stop_conditions") or {})
    if stops.pop("max_thinking_tokens", None) is not None:
        raise RequestError("'max_thinking_tokens' is not supported.", param="max_thinking_tokens")
    sampling = dict(fields.get("sampling_options") or {})
    shown = fields.get("output_options") or {}
    if asked.is_marked and shown.get("logprobs") is not None:
        message = "Log-probabilities cannot go with penalties in a cluster: ask a worker at its own address."
        raise RequestError(message, param="logprobs")
    given = stops.pop("max_tokens", None)
    limit = limit if given is None else given
    body: Json = {
        "prompt": list(asked.token_ids),
        "stream": True,
        "max_tokens": NO_LIMIT if limit is None else limit,
        "stop_token_ids": _stop_token_ids(stops, fields.get("eos_token_ids") or ()),
        "structured_outputs": _said(sampling.pop("guided_decoding", None) or {}) or None,
        "logprobs": shown.get("logprobs"),
        "prompt_logprobs": shown.get("prompt_logprobs"),
        "prompt_cache_key": (fields.get("agent_context") or {}).get("session_id"),
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


def parse_asked(raw: bytes, model: ServedModel, max_generations: int, *, asked: Asked) -> GenerationRequest:
    """The request to the engine, under the id that the front door has for it.

    Args:
        raw: as `completion_body` makes it.
        model: to be served from.
        max_generations: that the worker can hold.
        asked: of which the body was made.

    Raises:
        RequestError: it is not valid, or asks for more than the worker or the model can hold.
    """
    parsed = parse_completion(raw, model, max_generations)
    sampling = parsed.request.sampling
    if sampling.min_tokens:  # what has been sent is taken off, as of `max_tokens`
        sampling = replace(sampling, min_tokens=sampling.min_tokens + asked.emitted)
    control = control_of(asked.fields.get("annotations") or ())
    return replace(parsed.request, id=asked.id, sampling=sampling, emitted=asked.emitted, control=control)


# --- control of a request over its own fate, in an annotation: the front door lets no other field of ours through -----
# "nvext": {"annotations": ["cede:{\"group\": \"agent/1\", \"supersede\": \"editor-1\"}"]}

PREFIX = "cede:"
KNOWN = frozenset({"group", "supersede"})
"""The fields that mean something across workers.  What a hang-up means is the front door's, which tells of each at
once; a race that two workers decide could have two winners; and `after` and `warm` are about one worker's slots."""


def control_of(annotations: Sequence[str]) -> Control:
    """Return what the annotation of ours says, if there is one.

    Raises:
        RequestError: there are several, or it is not valid, or asks for what a cluster does not do.
    """
    given = [annotation.removeprefix(PREFIX) for annotation in annotations if annotation.startswith(PREFIX)]
    if not given:
        return NO_CONTROL
    if len(given) > 1:
        raise RequestError(f"There should be one annotation '{PREFIX}…', with all of the fields.", param="annotations")
    fields = parse_model(ControlFields, given[0].encode())
    for name, value in fields:
        if value is not None and name not in KNOWN:
            message = f"'cede.{name}' is not supported in a cluster: ask a worker at its own address."
            raise RequestError(message, param=f"cede.{name}")
    return Control(group=fields.group, supersede=fields.supersede)
