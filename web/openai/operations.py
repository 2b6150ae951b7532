"""The routes of OpenAI's API, for the OpenAPI document."""

from __future__ import annotations

from web.openai.answers.objects import Error, Model, ModelList
from web.openai.chat.answers import ChatCompletion, ChatCompletionChunk
from web.openai.chat.schema import ChatBody
from web.openai.completions.answers import Completion, CompletionChunk
from web.openai.completions.schema import CompletionBody
from web.openapi.operations import ANY_ROUTE, GENERATES, Api, Operation, Parameter, Reply

OPENAI = Api(
    "OpenAI",
    "OpenAI's API, with what llama-server, vLLM and cede add to it.",
    Error,
    (
        Operation(
            "post",
            "/v1/chat/completions",
            "create_chat_completion",
            "Answer a conversation",
            {200: Reply.generated(ChatCompletion, ChatCompletionChunk)},
            ChatBody,
            {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 16},
            errors=ANY_ROUTE | GENERATES,
        ),
        Operation(
            "post",
            "/v1/completions",
            "create_completion",
            "Go on with a text, or with token ids",
            {200: Reply.generated(Completion, CompletionChunk)},
            CompletionBody,
            {"prompt": "import os", "max_tokens": 16},
            errors=ANY_ROUTE | GENERATES,
        ),
        Operation(
            "get",
            "/v1/models",
            "list_models",
            "The served model, its context, and what requests sample by that do not say",
            {200: Reply.json(ModelList)},
        ),
        Operation(
            "get",
            "/v1/models/{name}",
            "get_model",
            "The served model, by its name",
            {200: Reply.json(Model)},
            parameters=(Parameter("name", "It may hold slashes.", place="path"),),
            errors=ANY_ROUTE | {404},
        ),
    ),
)
