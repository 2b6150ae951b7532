"""The routes of Anthropic's API, for the OpenAPI document."""

from __future__ import annotations

from web.apis.anthropic.answers.objects import Error, Message, StreamEvent, TokenCount
from web.apis.anthropic.prompts.schemas import CountBody, MessagesBody
from web.generation.control.operations import CONTROL_HEADERS
from web.openapi.operations import ANY_ROUTE, READS_BODY, Api, Operation, Reply

EXAMPLE = {"model": "any", "messages": [{"role": "user", "content": "What is the capital of France?"}]}

ANTHROPIC = Api(
    "Anthropic",
    "Anthropic's Messages API.",
    Error,
    (
        Operation(
            "post",
            "/v1/messages",
            "create_message",
            "Answer a conversation",
            {200: Reply.generated(Message, StreamEvent)},
            MessagesBody,
            EXAMPLE | {"max_tokens": 16},
            parameters=CONTROL_HEADERS,
            errors=ANY_ROUTE | READS_BODY | {504, 529},
        ),
        Operation(
            "post",
            "/v1/messages/count_tokens",
            "count_message_tokens",
            "Count the tokens of a conversation",
            {200: Reply.json(TokenCount)},
            CountBody,
            EXAMPLE,
            errors=ANY_ROUTE | READS_BODY | {529},
        ),
    ),
)
