"""Answers in parts, what is written of them, and what a client makes of that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from anthropic.types import Message, RawMessageStreamEvent
from pydantic import BaseModel, TypeAdapter

from actors.core.generation import Event, Finished
from runtime.chat.parts import CallArguments, CallEnd, CallStart, Part, ReasoningPart, TextPart
from tests.fakes.engine import fill, finished, token
from web.apis.anthropic.answers import MessageFormatter, MessageOptions
from web.bodies.json_encoding import iter_json

Json = dict[str, Any]
Parts = list[list["Part"]]

EVENT = TypeAdapter[RawMessageStreamEvent](RawMessageStreamEvent)
PAGE = 64


class ScriptedParser:
    """Makes the parts of a token that the script has under its text, which is a number; the last come at the end."""

    def __init__(self, script: Parts) -> None:
        self._script = script

    def push(self, text: str) -> Sequence[Part]:
        """Return the parts of that number."""
        return self._script[int(text)] if text else ()

    def finish(self, *, cut: bool = False) -> Sequence[Part]:
        """Return the last."""
        return self._script[-1] if self._script else ()


def options(script: Parts, **more: Any) -> MessageOptions:  # noqa: ANN401
    """Return the options of an answer in these parts."""
    return replace(MessageOptions("msg_1", "any", 7, parser=partial(ScriptedParser, script)), **more)


def events(script: Parts, end: Finished | None = None) -> list[Event]:
    """Return the engine's events of that answer: a token for each entry but the last, which comes with the end."""
    return [*(token(str(number)) for number in range(len(script) - 1)), end or finished(tokens=5, cached=3)]


def streamed(script: Parts, end: Finished | None = None, **more: Any) -> list[Json]:  # noqa: ANN401
    """Return the events that a client is sent, each of which fits the official client's models."""
    writer = MessageFormatter(options(script, **more))
    written = b"".join(piece for event in events(script, end) for piece in writer.write(event))
    assert writer.finished
    return checked(written + writer.closing())


def checked(written: bytes) -> list[Json]:
    """Return the data of named events, after a look at their shape."""
    found: list[Json] = []
    for lines in written.decode().removesuffix("\n\n").split("\n\n"):
        name, data = lines.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
        if found[-1]["type"] not in ("ping", "error"):
            nothing_unknown(EVENT.validate_json(data.removeprefix("data: "), strict=True))
    return found


def whole(script: Parts, end: Finished | None = None, **more: Any) -> Json:  # noqa: ANN401
    """Return the message that a client is sent, which fits the official client's model."""
    builder = MessageFormatter(options(script, **more), PAGE)
    fill(builder, events(script, end))
    message: Json = json.loads(b"".join(iter_json(builder.result())))
    nothing_unknown(Message.model_validate(message, strict=True))
    return message


def nothing_unknown(model: BaseModel) -> None:
    """Check that a model holds no field that it does not know, at any depth, but for cede's own."""
    assert (model.model_extra or {}).keys() <= {"cede"}, model
    for _, value in model:
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, BaseModel):
                nothing_unknown(inner)


def gathered(sent: Sequence[Json]) -> Json:
    """Return the message that a client makes of a stream's events."""
    message: Json = {}
    for event in sent:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"] | {"json": ""})
            case "content_block_delta":
                assert event["index"] == len(message["content"]) - 1
                (_, (field, more)) = event["delta"].items()
                block = message["content"][-1]
                name = {"partial_json": "json"}.get(field, field)
                block[name] += more
            case "content_block_stop":
                block = message["content"][event["index"]]
                arguments = block.pop("json")
                if block["type"] == "tool_use":
                    block["input"] = json.loads(arguments or "{}")
            case "message_delta":
                message |= event["delta"] | {name: event[name] for name in ("usage", "cede") if name in event}
    return message


CALL: list[Part] = [CallStart(0, "weather"), CallArguments(0, '{"city":'), CallArguments(0, ' "Rome"}'), CallEnd(0)]
EVERYTHING: Parts = [
    [ReasoningPart("hm")],
    [ReasoningPart(", so")],
    [TextPart("\n\n")],
    [TextPart("Let me")],
    [],
    [TextPart(" see.\n")],
    CALL[:2],
    CALL[2:],
    [TextPart("\n")],
    [CallStart(1, "clock"), CallEnd(1)],
    [],
]
