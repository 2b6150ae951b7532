"""The dialect of one server: its endpoint, its fields, and the form of its prompts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.client.harness.prompts import Prompt

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request.

    Attributes:
        prompt: token ids or text, as the server takes it.
        max_tokens: of the response.
        stream: whether the response is streamed.
        fields: added to the body last.
        may_be_cut: a response that is shorter than asked for is no surprise.
    """

    prompt: Prompt
    max_tokens: int
    stream: bool = True
    fields: Mapping[str, Any] = field(default_factory=dict)
    may_be_cut: bool = False


@dataclass(frozen=True, slots=True)
class Dialect:
    """The way in which requests are put to one server.

    Attributes:
        model: the name it knows its model by.
        endpoint: which of OpenAI's two.
        token_ids: the range from which prompts of token ids are drawn; None for a server that takes only text.
        fields: added to each body.
        without_speculation: the fields that keep the server from speculating.
        headers: added to each request.
    """

    model: str = "default"
    endpoint: Literal["completions", "chat"] = "completions"
    token_ids: range | None = range(300, 3000)
    fields: Mapping[str, Any] = field(default_factory=lambda: {"temperature": 0, "ignore_eos": True})
    without_speculation: Mapping[str, Any] = field(default_factory=lambda: {"speculate": False})
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Path of the endpoint."""
        return "/v1/completions" if self.endpoint == "completions" else "/v1/chat/completions"

    def body(self, spec: RequestSpec) -> Json:
        """Return the body of a request."""
        body: Json = {"model": self.model, "max_tokens": spec.max_tokens, "stream": spec.stream}
        if self.endpoint == "chat":
            body["messages"] = [{"role": "user", "content": spec.prompt}]
        else:
            body["prompt"] = spec.prompt
        if spec.stream:
            body["stream_options"] = {"include_usage": True}
        return body | dict(self.fields) | dict(spec.fields)
