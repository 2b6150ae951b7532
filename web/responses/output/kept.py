"""A response as it is stored: what a client asks for again is sent as it is, and only short parts are ever parsed.

A response may be megabytes long, most of it log-probabilities, and a parser holds the interpreter to its end, whatever
thread it runs in.  So three lines are stored: the response's JSON, that of its input, and that of its output without
log-probabilities.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from web.bodies.json_encoding import SelfEncoding, dumps
from web.bodies.json_response import encode_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Json = dict[str, Any]

BLOCK = 16 * 1024
"""Bytes of a response that are handed on at a time."""


class KeptResponse(SelfEncoding):
    """A stored response; as JSON it is the response object.

    Args:
        body: as `kept_body` has made it, or as one line, as cede did before.
    """

    def __init__(self, body: bytes) -> None:
        self._lines = body.split(b"\n")
        if len(self._lines) == 1:
            loaded: Json = json.loads(body)
            response, asked = loaded["response"], loaded["input"]
            output = without_logprobs(response["output"])
            self._lines = [dumps(part).encode() for part in (response, asked, output)]

    def iter_json(self) -> Iterator[bytes]:
        """Yield the response's JSON in fragments."""
        whole = self._lines[0]
        for start in range(0, len(whole), BLOCK):
            yield whole[start : start + BLOCK]

    def response(self) -> Json:
        """Return the response object; it may be long."""
        loaded: Json = json.loads(self._lines[0])
        return loaded

    def input(self) -> list[Json]:
        """Return the items that it answers, each with an id."""
        loaded: list[Json] = json.loads(self._lines[1])
        return loaded

    def output(self) -> list[Json]:
        """Return the items of its output, without log-probabilities."""
        loaded: list[Json] = json.loads(self._lines[2])
        return loaded


async def kept_body(response: Json, asked: Sequence[Json]) -> bytes:
    """Return what is stored of a response.

    Args:
        response: the response object, whose long parts may be `SelfEncoding`.
        asked: its own input, each item with an id.
    """
    parts = (response, list(asked), without_logprobs(response["output"]))
    return b"\n".join([await encode_json(part) for part in parts])


def without_logprobs(output: Sequence[Json]) -> list[Json]:
    """Return items of an output as they are without log-probabilities."""
    return [
        item | {"content": [part | {"logprobs": []} if "logprobs" in part else part for part in item["content"]]}
        if item["type"] == "message"
        else item
        for item in output
    ]
