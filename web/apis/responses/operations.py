"""The routes of the Responses API, for the OpenAPI document."""

from __future__ import annotations

from web.apis.responses.answers import (
    Conversation,
    DeletedConversation,
    DeletedResponse,
    Event,
    InputTokens,
    Item,
    ItemList,
    Response,
)
from web.apis.responses.input.conversation_bodies import ConversationBody, ItemsBody, MetadataBody
from web.apis.responses.input.schemas import PromptBody, ResponseBody
from web.generation.control.operations import CONTROL_HEADERS
from web.generation.openai_format.answers.objects import Error
from web.openapi.operations import ANY_ROUTE, GENERATES, LISTS, PAGES, READS_BODY, Api, Operation, Parameter, Reply

STORED = ANY_ROUTE | LISTS | {404}
CHANGES = STORED | READS_BODY | {429}

ONE = "/v1/conversations/{conversation_id}"
ITEM = {"role": "user", "content": "What is the capital of France?"}
CONVERSATIONS = (
    Operation(
        "post",
        "/v1/conversations",
        "create_conversation",
        "Begin a conversation, of which responses can be made",
        {200: Reply.json(Conversation)},
        ConversationBody,
        {"items": [ITEM], "metadata": {"topic": "geography"}},
        errors=ANY_ROUTE | READS_BODY | {429, 503},
    ),
    Operation("get", ONE, "get_conversation", "A conversation", {200: Reply.json(Conversation)}, errors=STORED),
    Operation(
        "post",
        ONE,
        "update_conversation",
        "Put other metadata in place of a conversation's",
        {200: Reply.json(Conversation)},
        MetadataBody,
        {"metadata": {"topic": "geography"}},
        errors=CHANGES,
    ),
    Operation(
        "delete",
        ONE,
        "delete_conversation",
        "Delete a conversation, with its items",
        {200: Reply.json(DeletedConversation)},
        errors=STORED,
    ),
    Operation(
        "get",
        f"{ONE}/items",
        "list_conversation_items",
        "The items of a conversation, a page at a time",
        {200: Reply.json(ItemList)},
        parameters=PAGES["desc"],
        errors=STORED,
    ),
    Operation(
        "post",
        f"{ONE}/items",
        "add_conversation_items",
        "Add up to 20 items to a conversation",
        {200: Reply.json(ItemList)},
        ItemsBody,
        {"items": [ITEM]},
        errors=CHANGES,
    ),
    Operation(
        "get",
        f"{ONE}/items/{{item_id}}",
        "get_conversation_item",
        "An item of a conversation",
        {200: Reply.json(Item)},
        errors=STORED,
    ),
    Operation(
        "delete",
        f"{ONE}/items/{{item_id}}",
        "delete_conversation_item",
        "Take an item out of a conversation",
        {200: Reply.json(Conversation)},
        errors=STORED,
    ),
)

RESPONSES = Api(
    "Responses",
    "OpenAI's Responses API; a full queue is a 503 here, and not a 429.",
    Error,
    (
        Operation(
            "post",
            "/v1/responses",
            "create_response",
            "Answer an input, with or without what was stored before it",
            {200: Reply.generated(Response, Event)},
            ResponseBody,
            {"input": "What is the capital of France?", "max_output_tokens": 16},
            parameters=CONTROL_HEADERS,
            errors=ANY_ROUTE | GENERATES | {404},
        ),
        Operation(
            "post",
            "/v1/responses/input_tokens",
            "count_input_tokens",
            "Count the tokens of a prompt",
            {200: Reply.json(InputTokens)},
            PromptBody,
            {"input": "What is the capital of France?"},
            errors=ANY_ROUTE | READS_BODY | {404, 503},
        ),
        Operation(
            "get",
            "/v1/responses/{response_id}",
            "get_response",
            "A stored response, or the events of one in the background",
            {200: Reply.generated(Response, Event)},
            parameters=(
                Parameter("stream", "Follow its events.", {"type": "boolean"}),
                Parameter("starting_after", "Number of the last event that is known.", {"type": "integer"}),
            ),
            errors=STORED,
        ),
        Operation(
            "delete",
            "/v1/responses/{response_id}",
            "delete_response",
            "Delete a stored response; one that runs is cancelled",
            {200: Reply.json(DeletedResponse)},
            errors=STORED,
        ),
        Operation(
            "post",
            "/v1/responses/{response_id}/cancel",
            "cancel_response",
            "Cancel a response in the background",
            {200: Reply.json(Response)},
            errors=STORED,
        ),
        Operation(
            "get",
            "/v1/responses/{response_id}/input_items",
            "list_input_items",
            "What a response was made from, a page at a time",
            {200: Reply.json(ItemList)},
            parameters=PAGES["desc"],
            errors=STORED,
        ),
        Operation(
            "post",
            "/v1/responses/compact",
            "compact",
            "Refused: a summary would be no better than one that is asked for",
            {},
            errors=ANY_ROUTE | {400},
        ),
        *CONVERSATIONS,
    ),
)
