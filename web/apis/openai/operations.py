"""The routes of OpenAI's API, for the OpenAPI document."""

from __future__ import annotations

from web.apis.openai.completions.answers import Completion, CompletionChunk
from web.apis.openai.completions.schema import CompletionBody
from web.apis.openai.embeddings.answers import Embeddings
from web.apis.openai.embeddings.schema import EmbeddingBody
from web.apis.openai.stored.answers import CompletionList, DeletedCompletion, MessageList, StoredChatCompletion
from web.apis.openai.stored.schemas import MetadataBody
from web.generation.control.operations import CONTROL_HEADERS
from web.generation.openai_format.answers.objects import Error
from web.generation.openai_format.chat.answers import ChatCompletion, ChatCompletionChunk
from web.generation.openai_format.chat.schema import ChatBody
from web.openapi.operations import ANY_ROUTE, GENERATES, LISTS, PAGES, READS_BODY, Api, Operation, Parameter, Reply
from web.process.limits import MAX_METADATA

CHATS = "/v1/chat/completions"
STORED = ANY_ROUTE | LISTS | {404}

OPENAI = Api(
    "OpenAI",
    "OpenAI's API, with what llama-server, vLLM and cede add to it.",
    Error,
    (
        Operation(
            "post",
            CHATS,
            "create_chat_completion",
            "Answer a conversation",
            {200: Reply.generated(ChatCompletion, ChatCompletionChunk)},
            ChatBody,
            {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 16},
            parameters=CONTROL_HEADERS,
            errors=ANY_ROUTE | GENERATES,
        ),
        Operation(
            "get",
            CHATS,
            "list_chat_completions",
            "The stored chat completions, a page at a time",
            {200: Reply.json(CompletionList)},
            parameters=(
                *PAGES["asc"],
                Parameter("model", "Only those that were asked of this model."),
                Parameter(
                    "metadata",
                    "Only those that have these entries: `metadata[key]=value`.",
                    {
                        "type": "object",
                        "propertyNames": {"minLength": 1},
                        "additionalProperties": {"type": "string"},
                        "maxProperties": MAX_METADATA,
                    },
                    deep=True,
                ),
            ),
            errors=ANY_ROUTE | LISTS,
        ),
        Operation(
            "get",
            f"{CHATS}/{{completion_id}}",
            "get_chat_completion",
            "A stored chat completion",
            {200: Reply.json(StoredChatCompletion)},
            errors=STORED,
        ),
        Operation(
            "post",
            f"{CHATS}/{{completion_id}}",
            "update_chat_completion",
            "Put other metadata in place of those of a stored chat completion",
            {200: Reply.json(StoredChatCompletion)},
            MetadataBody,
            {"metadata": {"topic": "geography"}},
            errors=STORED | READS_BODY | {429},
        ),
        Operation(
            "delete",
            f"{CHATS}/{{completion_id}}",
            "delete_chat_completion",
            "Delete a stored chat completion",
            {200: Reply.json(DeletedCompletion)},
            errors=STORED,
        ),
        Operation(
            "get",
            f"{CHATS}/{{completion_id}}/messages",
            "list_chat_messages",
            "The messages that a stored chat completion answers, a page at a time",
            {200: Reply.json(MessageList)},
            parameters=PAGES["asc"],
            errors=STORED,
        ),
        Operation(
            "post",
            "/v1/completions",
            "create_completion",
            "Go on with a text, or with token ids",
            {200: Reply.generated(Completion, CompletionChunk)},
            CompletionBody,
            {"prompt": "import os", "max_tokens": 16},
            parameters=CONTROL_HEADERS,
            errors=ANY_ROUTE | GENERATES,
        ),
        Operation(
            "post",
            "/v1/embeddings",
            "create_embedding",
            "Texts as vectors",
            {200: Reply.json(Embeddings)},
            EmbeddingBody,
            {"input": ["import os", "import sys"]},
            errors=ANY_ROUTE | GENERATES,
        ),
    ),
)
