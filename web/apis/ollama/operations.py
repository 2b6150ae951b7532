"""The routes of Ollama's API, for the OpenAPI document."""

from __future__ import annotations

from web.apis.ollama.answers.formatter import CONTENT_TYPE
from web.apis.ollama.answers.models import (
    ChatAnswer,
    EmbedAnswer,
    Error,
    GenerateAnswer,
    OldEmbedAnswer,
    Processes,
    Show,
    Tags,
    Version,
)
from web.apis.ollama.schemas import ChatBody, EmbedBody, GenerateBody, ModelBody, OldEmbedBody
from web.generation.control.operations import CONTROL_HEADERS
from web.openapi.operations import ANY_ROUTE, GENERATES, READS_BODY, Api, Operation, Reply

REFUSED = {
    "pull": "This server serves the model that it was started with; `cede pull` fetches others.",
    "push": "This server publishes no models.",
    "create": "This server makes no models.",
    "copy": "This server serves one model, under one name.",
    "delete": "This server does not delete models; `cede rm` does.",
}
"""What the endpoints answer that a server of one model does not have."""


def refused_method(name: str) -> str:
    """Return the method of an endpoint that refuses, in lower case."""
    return "delete" if name == "delete" else "post"


OLLAMA = Api(
    "Ollama",
    "Ollama's API, for clients that know no other.",
    Error,
    (
        Operation(
            "post",
            "/api/chat",
            "ollama_chat",
            "Answer a conversation, in lines unless `stream` is false",
            {200: Reply.generated(ChatAnswer, ChatAnswer, CONTENT_TYPE)},
            ChatBody,
            {"model": "any", "messages": [{"role": "user", "content": "What is the capital of France?"}]},
            parameters=CONTROL_HEADERS,
            errors=ANY_ROUTE | GENERATES,
        ),
        Operation(
            "post",
            "/api/generate",
            "ollama_generate",
            "Answer one prompt, go on with a text, or fill a gap",
            {200: Reply.generated(GenerateAnswer, GenerateAnswer, CONTENT_TYPE)},
            GenerateBody,
            {"model": "any", "prompt": "What is the capital of France?", "options": {"num_predict": 16}},
            parameters=CONTROL_HEADERS,
            errors=ANY_ROUTE | GENERATES,
        ),
        Operation(
            "post",
            "/api/embed",
            "ollama_embed",
            "Texts as vectors, each of length 1",
            {200: Reply.json(EmbedAnswer)},
            EmbedBody,
            {"model": "any", "input": ["import os", "import sys"]},
            errors=ANY_ROUTE | GENERATES,
        ),
        Operation(
            "post",
            "/api/embeddings",
            "ollama_embeddings",
            "One text as a vector, of any length; what clients used before there was /api/embed",
            {200: Reply.json(OldEmbedAnswer)},
            OldEmbedBody,
            {"model": "any", "prompt": "import os"},
            errors=ANY_ROUTE | GENERATES,
        ),
        Operation(
            "post",
            "/api/show",
            "ollama_show",
            "What is known of the served model",
            {200: Reply.json(Show)},
            ModelBody,
            {"model": "embedded"},
            errors=ANY_ROUTE | READS_BODY | {404, 503},
        ),
        Operation("get", "/api/tags", "ollama_tags", "The served model", {200: Reply.json(Tags)}),
        Operation("get", "/api/ps", "ollama_ps", "The served model as a loaded one", {200: Reply.json(Processes)}),
        Operation("get", "/api/version", "ollama_version", "The API's version", {200: Reply.json(Version)}),
        *(
            Operation(refused_method(name), f"/api/{name}", f"ollama_{name}", text, {}, errors=ANY_ROUTE | {400, 413})
            for name, text in REFUSED.items()
        ),
    ),
)
