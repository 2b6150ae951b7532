"""The response object around the output: what was asked, and how it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from runtime.chat.parts import PlainParser
from web.apis.responses.input.schemas import CustomTool, FunctionTool, NamespaceTool, SchemaFormat
from web.generation.asked import priority_of, tier_of
from web.generation.control.fields import Noted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.core.generation import GenerationRequest
    from runtime.chat.parts import OutputParser
    from runtime.text.tokenizer import Tokenizer
    from web.apis.responses.answers import AnyItem, AskedFields, Called, Failure, Response, Status, Usage
    from web.apis.responses.input.schemas import AnyTool, ResponseBody
    from web.bodies.errors.problem import Problem

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a response.

    Attributes:
        status: one of the last four.
        error: of a failed one.
        reason: of an incomplete one, in OpenAI's words.
        cancel_note: the field for which OpenAI has no word, if there is one.
        at: when; seconds since the epoch.
    """

    status: Status
    error: Failure | None = None
    reason: Literal["max_output_tokens"] | None = None
    cancel_note: Noted = field(default_factory=Noted)
    at: int = field(default_factory=lambda: int(time.time()))

    @property
    def event(self) -> str:
        """The type of the last event; there is none of its own for a response that was cancelled."""
        named = "incomplete" if self.status == "cancelled" else self.status
        return f"response.{named}"


def failure(problem: Problem) -> Ending:
    """Return the ending of a response that met an error; OpenAI's clients know a fixed set of codes."""
    code = "rate_limit_exceeded" if problem.status == 429 else "server_error"
    return Ending("failed", {"code": code, "message": problem.message})


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """Options of one request for its answer.

    Attributes:
        id: of the response, and of the engine's request.
        asked: fields of the response that repeat what was asked, and when.
        tokenizer: of the model, for the text of single tokens.
        parser: makes the parser of the output.
        custom: names of the custom tools.
        apart: namespace and name of the tools in a namespace, by their name for the model.
        logprobs: whether to show log-probabilities.
        store: whether the response is to be stored.
        background: whether it runs without its client.
        previous: id of the stored response that it continues.
        input: JSON of its own items, each with an id.
    """

    id: str
    asked: AskedFields
    tokenizer: Tokenizer
    parser: Callable[[], OutputParser] = PlainParser
    custom: frozenset[str] = field(default_factory=frozenset)
    apart: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    logprobs: bool = False
    store: bool = False
    background: bool = False
    previous: str | None = None
    input: Sequence[Json] = ()

    def called(self, call_id: str, name: str) -> Called:
        """Return the fields by which a call says what is called, of the tool's name for the model."""
        if name not in self.apart:
            return {"call_id": call_id, "name": name}
        namespace, own = self.apart[name]
        return {"call_id": call_id, "namespace": namespace, "name": own}

    @property
    def key(self) -> str:
        """The part of the response's id that the ids of its items share."""
        return self.id.partition("_")[2]

    def envelope(self, output: list[AnyItem], usage: Usage | None = None, ending: Ending | None = None) -> Response:
        """Return the response object.

        Args:
            output: items, whose long parts may be `SelfEncoding`.
            usage: once it is known.
            ending: of a response that has ended.
        """
        incomplete = None if ending is None else ending.reason
        response: Response = {
            **self.asked,
            "status": "in_progress" if ending is None else ending.status,
            "error": None if ending is None else ending.error,
            "incomplete_details": None if incomplete is None else {"reason": incomplete},
            "output": output,
            "usage": usage,
            **(Noted() if ending is None else ending.cancel_note),
        }
        if ending is not None and ending.status == "completed":
            response["completed_at"] = ending.at
        elif ending is not None and ending.status in ("failed", "cancelled"):  # nothing was added
            response["conversation"] = None
        return response


def asked_fields(body: ResponseBody, request: GenerationRequest, model: str, *, store: bool) -> AskedFields:
    """Return the fields of a response that say what was asked, and how tokens are drawn, which a body need not say."""
    text = body.text
    return {
        "id": request.id,
        "object": "response",
        "created_at": int(time.time()),
        "background": bool(body.background),
        "completed_at": None,
        "conversation": None if body.conversation_id is None else {"id": body.conversation_id},
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": body.max_tool_calls,
        "metadata": body.metadata or {},
        "model": body.model or model,
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": {"effort": None if body.reasoning is None else body.reasoning.effort, "summary": None},
        "safety_identifier": body.safety_identifier,
        "service_tier": tier_of(priority_of(body.priority, body.service_tier)),
        "store": store,
        "temperature": request.sampling.temperature,
        "text": {"format": _format(body), "verbosity": (text and text.verbosity) or "medium"},
        "tool_choice": _plain(body.tool_choice) or "auto",
        "tools": _tools(body.tools or []),
        "top_logprobs": body.top_logprobs or 0,
        "top_p": request.sampling.top_p,
        "truncation": body.truncation or "disabled",
        "user": body.user,
    }


def _format(body: ResponseBody) -> Json:
    chosen = body.text and body.text.format
    if not isinstance(chosen, SchemaFormat):
        return {"type": chosen.type if chosen else "text"}
    return {
        "type": "json_schema",
        "name": chosen.name,
        "schema": chosen.schema_,
        "description": chosen.description,
        "strict": bool(chosen.strict),
    }


def _tools(tools: Sequence[AnyTool]) -> list[Json]:
    """Return the tools that the model saw."""
    shown = []
    for tool in tools:
        if isinstance(tool, FunctionTool):
            shown.append(
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": bool(tool.strict),
                }
            )
        elif isinstance(tool, CustomTool | NamespaceTool):
            shown.append(_plain(tool))
    return shown


def _plain(model: Any) -> Any:  # noqa: ANN401
    """Return a part of the body as JSON."""
    return model.model_dump(exclude_none=True) if hasattr(model, "model_dump") else model
