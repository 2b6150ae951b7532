"""All that clients' libraries can send is read, or refused by its name, or in the list of what is not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runtime.chat.chat import Chat
from runtime.chat.template import ChatTemplate
from runtime.errors import RequestError
from tests.fakes.engine import model
from tests.models.chat.strict_templates import QWEN_35
from tests.unit.web.client_fields import CHOOSERS, Sent, sent
from web.apis.anthropic.parse import parse_messages
from web.apis.anthropic.prompts.schemas import MessagesBody
from web.apis.ollama.parse import parse_chat as parse_ollama_chat
from web.apis.ollama.parse import parse_generate
from web.apis.ollama.schemas import ChatBody as OllamaChatBody
from web.apis.ollama.schemas import GenerateBody
from web.apis.openai.chat import parse_chat
from web.apis.responses.conversion import History, prepare, read_body
from web.apis.responses.input.schemas import ResponseBody
from web.generation.openai_format.chat.schema import ChatBody
from web.generation.passed_over import ANTHROPIC, CHAT, LISTS, OLLAMA, RESPONSES, why_passed_over

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.chat.conversation import Conversation
    from web.bodies.strict_model import StrictModel

Json = dict[str, Any]

openai_chat = pytest.importorskip("openai.types.chat.completion_create_params")
openai_responses = pytest.importorskip("openai.types.responses.response_create_params")
anthropic = pytest.importorskip("anthropic.types.message_create_params")
anthropic_beta = pytest.importorskip("anthropic.types.beta.message_create_params")
ollama = pytest.importorskip("ollama._types")

CONTENT = ("messages", "input", "system", "instructions", "tools", "functions", "prompt")
"""Fields whose words are for the model."""

IDS = ("id", "tool_call_id", "call_id", "tool_use_id", "tool_name")
NEUTRAL = ("modalities=text",)
HOW = ("strict", "syntax", "is_error")
"""In tools and messages: which result is of which call, how a call is held, and that a tool failed."""


class Recorder(Chat):
    """Remembers the last prompt that it made."""

    text = ""

    def prompt(self, conversation: Conversation) -> Any:  # noqa: ANN401
        """Make a prompt, and remember it."""
        made = super().prompt(conversation)
        self.text = made.text
        return made


class NoItems(dict[str, bytes]):
    """Stored items of which there is none."""

    def __missing__(self, key: str) -> bytes:
        """Say that it is not there."""
        raise RequestError(f"There is no item '{key}'.", param="input.0.id")


CHAT_MODEL = Recorder(ChatTemplate(QWEN_35))
MODEL = model(context_length=100_000, chat=CHAT_MODEL)


def respond(raw: bytes) -> None:
    prepare(read_body(raw, MODEL), History(items=NoItems()), MODEL)


def with_results(body: Json) -> Json:
    """A body of Anthropic's in which each call has its result, and each result its call."""
    (message,) = body["messages"]
    content = message.get("content")
    block = content[0] if isinstance(content, list) else {}
    if block.get("type") == "tool_result" and message["role"] == "user":
        call = {"type": "tool_use", "id": block["tool_use_id"], "name": "f", "input": {}}
        return body | {"messages": [{"role": "assistant", "content": [call]}, message]}
    if block.get("type") == "tool_use" and message["role"] == "assistant":
        result = {"type": "tool_result", "tool_use_id": block["id"], "content": "r"}
        return body | {"messages": [message, {"role": "user", "content": [result]}]}
    return body


def as_it_is(body: Json) -> Json:
    return body


HI = {"role": "user", "content": "hi"}
MESSAGES: Json = {"model": "m", "messages": [HI]}
Api = tuple[Any, "type[StrictModel]", "Callable[[bytes], object]", "Mapping[str, str]", Json, "Callable[[Json], Json]"]
APIS: dict[str, Api] = {
    "chat": (
        openai_chat.CompletionCreateParamsNonStreaming,
        ChatBody,
        lambda raw: parse_chat(raw, MODEL),
        CHAT,
        MESSAGES,
        as_it_is,
    ),
    "responses": (
        openai_responses.ResponseCreateParamsNonStreaming,
        ResponseBody,
        respond,
        RESPONSES,
        {"input": "hi"},
        as_it_is,
    ),
    "anthropic": (
        anthropic.MessageCreateParamsNonStreaming,
        MessagesBody,
        lambda raw: parse_messages(raw, MODEL),
        ANTHROPIC,
        MESSAGES | {"max_tokens": 1},
        with_results,
    ),
    "anthropic beta": (
        anthropic_beta.MessageCreateParamsNonStreaming,
        MessagesBody,
        lambda raw: parse_messages(raw, MODEL),
        ANTHROPIC,
        MESSAGES | {"max_tokens": 1},
        with_results,
    ),
    "ollama chat": (
        ollama.ChatRequest,
        OllamaChatBody,
        lambda raw: parse_ollama_chat(raw, MODEL),
        OLLAMA,
        MESSAGES,
        as_it_is,
    ),
    "ollama generate": (
        ollama.GenerateRequest,
        GenerateBody,
        lambda raw: parse_generate(raw, MODEL),
        OLLAMA,
        {"prompt": "hi"},
        as_it_is,
    ),
}


def names_of(path: str) -> list[str]:
    """The parts of a path, and the types in it."""
    return [word for word in path.replace("=", ".").replace("[", ".").replace("]", "").split(".") if word]


def is_accounted_for(field: Sent, parse: Callable[[bytes], object], body: Json) -> bool:
    """Return whether a field reaches the prompt, or is refused by its name or that of what it is in."""
    try:
        parse(json.dumps(body).encode())
    except RequestError as error:
        names = set(names_of(field.path)) - {*CONTENT, "messages", "content"}
        words = names | {part for name in names for part in name.split("_") if len(part) > 3}
        param, said = error.param or "", str(error)
        if "chat template" in said:
            return False  # a template's own words name no field
        whole = param == field.path.partition(".")[0] or param.partition(".")[0] == field.path
        return whole or any(word in f"{param} {said}" for word in words)
    return field.word is not None and field.word in CHAT_MODEL.text


@pytest.mark.parametrize("api", APIS)
def test_what_a_client_can_send_is_read_or_refused_or_in_the_list(api: str) -> None:
    kind, schema, parse, passed_over, base, complete = APIS[api]
    lost = []
    for field in sent(kind):
        names = names_of(field.path.partition("=")[0])
        top, last = names[0], names[-1]
        is_setting = top in schema.model_fields and top not in CONTENT
        is_known = last in (*IDS, *HOW, *CHOOSERS) or top in ("model", "stream") or field.path in NEUTRAL
        if is_setting or is_known or why_passed_over(field.path, passed_over) is not None:
            continue
        if not is_accounted_for(field, parse, complete(base | field.value)):
            lost.append(field.path)
    assert lost == []


def test_the_document_shows_the_list() -> None:
    page = (Path(__file__).parents[4] / "docs" / "use" / "ignored.md").read_text()
    rows = [f"| `{path}` | {why} |" for passed_over in LISTS.values() for path, why in passed_over.items()]
    assert [row for row in rows if row not in page] == []
    assert page.count("\n| `") == len(rows)
