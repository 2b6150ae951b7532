"""The utility routes, for the OpenAPI document."""

from __future__ import annotations

from web.apis.utilities.answers import AppliedTemplate, Detokenized, Properties, Tokens, Version
from web.apis.utilities.schemas import DetokenizeBody, TokenizeBody
from web.generation.openai_format.answers.objects import Error
from web.generation.openai_format.chat.schema import ChatBody
from web.openapi.operations import ANY_ROUTE, READS_BODY, Api, Operation, Reply

RERANKERS = ("/rerank", "/v1/rerank", "/v1/reranking")
"""Under which paths servers rerank, which this one does not."""

_TURNS = [{"role": "user", "content": "What is the capital of France?"}]

UTILITIES = Api(
    "Utilities",
    "What llama-server's and vLLM's clients ask for beside chats and completions.",
    Error,
    (
        Operation(
            "post",
            "/tokenize",
            "tokenize",
            "The tokens of a text or of a chat",
            {200: Reply.json(Tokens)},
            TokenizeBody,
            {"content": "import os", "with_pieces": True},
            errors=ANY_ROUTE | READS_BODY | {503},
        ),
        Operation(
            "post",
            "/detokenize",
            "detokenize",
            "The text of tokens",
            {200: Reply.json(Detokenized)},
            DetokenizeBody,
            {"tokens": [1, 2, 3]},
            errors=ANY_ROUTE | READS_BODY | {503},
        ),
        Operation(
            "post",
            "/apply-template",
            "apply_template",
            "The prompt that the chat template makes of a chat",
            {200: Reply.json(AppliedTemplate)},
            ChatBody,
            {"messages": _TURNS},
            errors=ANY_ROUTE | READS_BODY | {503},
        ),
        Operation("get", "/props", "props", "What is known of the server", {200: Reply.json(Properties)}),
        Operation("get", "/version", "version", "The version of cede", {200: Reply.json(Version)}),
        *(
            Operation("post", path, f"rerank_{number}", "Refused: it ranks nothing", {}, errors=ANY_ROUTE | {400})
            for number, path in enumerate(RERANKERS)
        ),
    ),
)
