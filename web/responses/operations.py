"""The routes of the Responses API, for the OpenAPI document."""

from __future__ import annotations

from web.openai.answers.objects import Error
from web.openapi.operations import ANY_ROUTE, GENERATES, LISTS, PAGES, READS_BODY, Api, Operation, Parameter, Reply
from web.responses.answers import DeletedResponse, Event, InputTokens, ItemList, Response
from web.responses.input.schemas import PromptBody, ResponseBody

STORED = ANY_ROUTE | LISTS | {404}

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
            errors=ANY_ROUTE | GENERATES,
        ),
        Operation(
            "post",
            "/v1/responses/input_tokens",
            "count_input_tokens",
            "Count the tokens of a prompt",
            {200: Reply.json(InputTokens)},
            PromptBody,
            {"input": "What is the capital of France?"},
            errors=ANY_ROUTE | READS_BODY | {503},
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
    ),
)
