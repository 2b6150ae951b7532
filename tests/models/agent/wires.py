"""The four wire formats that have tools: a chat as each asks for it, and an answer as each gives it.

(Legacy completions have no tools.)  An answer that was streamed is put together from its deltas, and where the format
says the whole once more, in its last event, the two are compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]


@dataclass
class Call:
    """A call of an answer."""

    id: str
    name: str
    arguments: str


@dataclass
class Reply:
    """Contents of an answer.

    Attributes:
        text: its text.
        reasoning: what was thought before.
        calls: in their order.
        calling: the format says that the answer ended to have its calls carried out.
        signature: of the thought, for Anthropic's API.
    """

    text: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    calling: bool = False
    signature: str = ""

    @property
    def says(self) -> tuple[str, str, list[tuple[str, Any]], bool]:
        """Return what it says, without ids."""
        return self.text, self.reasoning, [(call.name, json.loads(call.arguments)) for call in self.calls], self.calling


@dataclass(frozen=True)
class Result:
    """Result of a tool."""

    call: Call
    text: str


History = list[str | Reply | Result]
"""What the user said, what the model answered, and what its calls returned."""


class Wire(Protocol):
    """A wire format."""

    path: str

    def body(self, history: History, tools: Sequence[Json], *, stream: bool, choice: str = "auto") -> Json:
        """Return the body of a request; `choice` is `auto`, `required` or the name of a tool."""

    def whole(self, answer: Json) -> Reply:
        """Read an answer that came at once."""

    def streamed(self, text: str) -> Reply:
        """Read a stream."""


def _events(text: str) -> Iterable[Json]:
    """The data of a stream of server-sent events."""
    for line in text.splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))


def _function(tool: Json) -> Json:
    return {"type": "function", "function": tool}


class Chat:
    """OpenAI's chat completions."""

    path = "/v1/chat/completions"

    def body(self, history: History, tools: Sequence[Json], *, stream: bool, choice: str = "auto") -> Json:
        """Return the body of a request."""
        named: Any = choice if choice in ("auto", "required") else {"type": "function", "function": {"name": choice}}
        messages = [self._message(turn) for turn in history]
        return {"messages": messages, "tools": [_function(t) for t in tools], "stream": stream, "tool_choice": named}

    def _message(self, turn: str | Reply | Result) -> Json:
        match turn:
            case str():
                return {"role": "user", "content": turn}
            case Result(call, text):
                return {"role": "tool", "tool_call_id": call.id, "content": text}
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.calls
        ]
        message: Json = {"role": "assistant", "content": turn.text or None}
        return message | ({"tool_calls": calls} if calls else {}) | _reasoning("reasoning_content", turn)

    def whole(self, answer: Json) -> Reply:
        """Read an answer that came at once."""
        (choice,) = answer["choices"]
        message = choice["message"]
        calls = [Call(call["id"], **call["function"]) for call in message.get("tool_calls") or []]
        calling = choice["finish_reason"] == "tool_calls"
        return Reply(message["content"] or "", message.get("reasoning_content") or "", calls, calling)

    def streamed(self, text: str) -> Reply:
        """Read a stream."""
        reply = Reply()
        for chunk in _events(text):
            for choice in chunk["choices"]:
                delta = choice["delta"]
                reply.text += delta.get("content") or ""
                reply.reasoning += delta.get("reasoning_content") or ""
                reply.calling |= choice["finish_reason"] == "tool_calls"
                for call in delta.get("tool_calls") or []:
                    if "id" in call:
                        assert call["index"] == len(reply.calls)
                        reply.calls.append(Call(call["id"], call["function"]["name"], ""))
                    reply.calls[call["index"]].arguments += call["function"].get("arguments") or ""
        return reply


class Responses:
    """OpenAI's Responses."""

    path = "/v1/responses"

    def body(self, history: History, tools: Sequence[Json], *, stream: bool, choice: str = "auto") -> Json:
        """Return the body of a request."""
        named: Any = choice if choice in ("auto", "required") else {"type": "function", "name": choice}
        items = [item for turn in history for item in self._items(turn)]
        functions = [{"type": "function", "strict": False, **tool} for tool in tools]
        return {"input": items, "tools": functions, "stream": stream, "tool_choice": named, "store": False}

    def _items(self, turn: str | Reply | Result) -> list[Json]:
        match turn:
            case str():
                return [{"role": "user", "content": turn}]
            case Result(call, text):
                return [{"type": "function_call_output", "call_id": call.id, "output": text}]
        thought = [{"type": "reasoning_text", "text": turn.reasoning}]
        said = [{"type": "output_text", "text": turn.text, "annotations": []}]
        return [
            *([{"type": "reasoning", "id": "rs_1", "summary": [], "content": thought}] if turn.reasoning else []),
            *([{"type": "message", "role": "assistant", "content": said}] if turn.text else []),
            *(
                {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
                for call in turn.calls
            ),
        ]

    def whole(self, answer: Json) -> Reply:
        """Read an answer that came at once."""
        assert answer["status"] in ("completed", "incomplete")
        reply = Reply()
        for item in answer["output"]:
            match item["type"]:
                case "reasoning":
                    reply.reasoning += "".join(part["text"] for part in item["content"])
                case "message":
                    reply.text += "".join(part["text"] for part in item["content"])
                case "function_call":
                    reply.calls.append(Call(item["call_id"], item["name"], item["arguments"]))
        made = [item["status"] for item in answer["output"] if item["type"] == "function_call"]
        reply.calling = bool(made) and {answer["status"], *made} == {"completed"}
        return reply

    def streamed(self, text: str) -> Reply:
        """Read a stream, whose last event has the whole answer, too."""
        reply, last = Reply(), Json()
        for event in _events(text):
            last = event
            match event["type"]:
                case "response.output_text.delta":
                    reply.text += event["delta"]
                case "response.reasoning_text.delta":
                    reply.reasoning += event["delta"]
                case "response.output_item.added" if event["item"]["type"] == "function_call":
                    reply.calls.append(Call(event["item"]["call_id"], event["item"]["name"], ""))
                case "response.function_call_arguments.delta":
                    reply.calls[-1].arguments += event["delta"]
        whole = self.whole(last["response"])
        assert last["type"] == f"response.{last['response']['status']}"
        reply.calling = whole.calling
        assert whole == reply
        return reply


class Messages:
    """Anthropic's Messages."""

    path = "/v1/messages"

    def body(self, history: History, tools: Sequence[Json], *, stream: bool, choice: str = "auto") -> Json:
        """Return the body of a request; the results of one answer's calls are one turn."""
        messages: list[Json] = []
        for turn in history:
            message = self._message(turn)
            if isinstance(turn, Result) and messages[-1]["role"] == "user":
                messages[-1]["content"] += message["content"]
            else:
                messages.append(message)
        kinds = {"auto": {"type": "auto"}, "required": {"type": "any"}}
        functions = [
            {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
            for tool in tools
        ]
        named = kinds.get(choice) or {"type": "tool", "name": choice}
        limits = {"model": "any", "max_tokens": 900, "thinking": {"type": "adaptive"}}
        return {"messages": messages, "tools": functions, "stream": stream, "tool_choice": named, **limits}

    def _message(self, turn: str | Reply | Result) -> Json:
        match turn:
            case str():
                return {"role": "user", "content": turn}
            case Result(call, text):
                block = {"type": "tool_result", "tool_use_id": call.id, "content": text}
                return {"role": "user", "content": [block]}
        thought = {"type": "thinking", "thinking": turn.reasoning, "signature": turn.signature}
        uses = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
            for call in turn.calls
        ]
        said = [{"type": "text", "text": turn.text}] if turn.text else []
        return {"role": "assistant", "content": [*([thought] if turn.reasoning else []), *said, *uses]}

    def whole(self, answer: Json) -> Reply:
        """Read an answer that came at once."""
        reply = Reply(calling=answer["stop_reason"] == "tool_use")
        for block in answer["content"]:
            match block["type"]:
                case "thinking":
                    reply.reasoning += block["thinking"]
                    reply.signature = block["signature"]
                case "text":
                    reply.text += block["text"]
                case "tool_use":
                    reply.calls.append(Call(block["id"], block["name"], json.dumps(block["input"])))
        return reply

    def streamed(self, text: str) -> Reply:
        """Read a stream."""
        reply = Reply()
        for event in _events(text):
            match event["type"]:
                case "content_block_start" if event["content_block"]["type"] == "tool_use":
                    block = event["content_block"]
                    assert block["input"] == {}
                    reply.calls.append(Call(block["id"], block["name"], ""))
                case "content_block_delta":
                    delta = event["delta"]
                    reply.text += delta.get("text", "")
                    reply.reasoning += delta.get("thinking", "")
                    reply.signature += delta.get("signature", "")
                    if delta["type"] == "input_json_delta":
                        reply.calls[-1].arguments += delta["partial_json"]
                case "message_delta":
                    reply.calling = event["delta"]["stop_reason"] == "tool_use"
        return reply


class Ollama:
    """Ollama's chat, which cannot require a call."""

    path = "/api/chat"

    def body(self, history: History, tools: Sequence[Json], *, stream: bool, choice: str = "auto") -> Json:
        """Return the body of a request."""
        assert choice == "auto"
        messages = [self._message(turn) for turn in history]
        return {"model": "any", "messages": messages, "tools": [_function(tool) for tool in tools], "stream": stream}

    def _message(self, turn: str | Reply | Result) -> Json:
        match turn:
            case str():
                return {"role": "user", "content": turn}
            case Result(call, text):
                return {"role": "tool", "tool_name": call.name, "content": text}
        calls = [{"function": {"name": call.name, "arguments": json.loads(call.arguments)}} for call in turn.calls]
        message: Json = {"role": "assistant", "content": turn.text}
        return message | ({"tool_calls": calls} if calls else {}) | _reasoning("thinking", turn)

    def whole(self, answer: Json) -> Reply:
        """Read an answer that came at once."""
        assert answer["done"]
        return self._put_together([answer])

    def streamed(self, text: str) -> Reply:
        """Read a stream of lines, in which a call comes at once."""
        lines = [json.loads(line) for line in text.splitlines()]
        assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
        return self._put_together(lines)

    def _put_together(self, answers: Iterable[Json]) -> Reply:
        reply = Reply()
        for answer in answers:
            message = answer["message"]
            reply.text += message["content"]
            reply.reasoning += message.get("thinking") or ""
            reply.calls += [
                Call("", call["function"]["name"], json.dumps(call["function"]["arguments"]))
                for call in message.get("tool_calls") or []
            ]
        reply.calling = bool(reply.calls)  # Ollama's reason is `stop` for these, too
        return reply


def _reasoning(name: str, turn: Reply) -> Json:
    return {name: turn.reasoning} if turn.reasoning else {}


WIRES: tuple[Wire, ...] = (Chat(), Responses(), Messages(), Ollama())
