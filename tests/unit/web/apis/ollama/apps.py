"""Bodies of Ollama's endpoints, parsed as the server does."""

from __future__ import annotations

import json
from typing import Any

from runtime.loading.served import ServedModel
from tests.fakes.engine import model as fake_model
from web.apis.ollama.answers import AnswerOptions
from web.apis.ollama.parse import parse_chat, parse_generate
from web.generation.asked import Asked

HELLO: dict[str, Any] = {"model": "bytes", "messages": [{"role": "user", "content": "hi"}]}


def chat(model: ServedModel | None = None, /, **fields: Any) -> Asked[AnswerOptions]:  # noqa: ANN401
    """Return what a chat's body with these fields asks for, beside one message unless given."""
    asked = parse_chat(json.dumps(HELLO | fields).encode(), model or fake_model())
    assert isinstance(asked, Asked)
    return asked


def generate(model: ServedModel | None = None, /, **fields: Any) -> Asked[AnswerOptions]:  # noqa: ANN401
    """Return what a body of `/api/generate` with these fields asks for, beside a prompt unless given."""
    body = {"model": "bytes", "prompt": "hi"} | fields
    asked = parse_generate(json.dumps(body).encode(), model or fake_model())
    assert isinstance(asked, Asked)
    return asked


def prompt_text(asked: Asked[AnswerOptions]) -> str:
    """The one prompt of a request, where a token is a byte."""
    (ids,) = asked.request.prompts
    return bytes(token_id for token_id in ids if token_id < 256).decode()
