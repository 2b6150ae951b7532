"""The routes of the Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.apis.responses.answering import ResponseHandlers
from web.apis.responses.answers import (
    Conversation,
    DeletedConversation,
    DeletedResponse,
    Event,
    InputTokens,
    Item,
    ItemList,
)
from web.apis.responses.answers import (
    Response as ResponseObject,
)
from web.apis.responses.conversations import ConversationHandlers
from web.apis.responses.errors import ResponseErrors
from web.apis.responses.input.conversation_bodies import ConversationBody, ItemsBody, MetadataBody
from web.apis.responses.input.schemas import PromptBody, ResponseBody
from web.apis.responses.retrieval import StoredResponses
from web.bodies.errors.shapes import ErrorRoute
from web.generation.control.fields import CONTROL_HEADERS
from web.generation.openai_format.errors import Error
from web.openapi.operations import GENERATES, LISTS, PAGES, Api, Parameter, Reply

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.apis.responses.stored.state import State
    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp

PATH = "/v1/responses"
CONVERSATIONS = "/v1/conversations"
ERRORS = (ErrorRoute(PATH, ResponseErrors()), ErrorRoute(CONVERSATIONS, ResponseErrors()))
"""The shape of the errors at these URLs."""
STORED = LISTS | {404}
QUESTION = "What is the capital of France?"
ITEMS = {"items": [{"role": "user", "content": QUESTION}]}
METADATA = {"metadata": {"topic": "geography"}}


def add_routes(app: ScopedApp, responder: Responder, state: State | None) -> None:
    """Add the Responses API to an application.

    Args:
        app: to be extended.
        responder: opens the requests.
        state: where responses are stored, and run in the background; None where they are not.
    """
    api = Api(app, "Responses", "OpenAI's Responses API; a full queue is a 503 here, and not a 429.", Error)
    _add_generating_routes(api, ResponseHandlers(responder, state))
    _add_stored_routes(api, StoredResponses(responder.engine, state, responder.write_bytes))
    _add_conversations(api, ConversationHandlers(responder, None if state is None else state.conversations))


def _add_generating_routes(api: Api, handlers: ResponseHandlers) -> None:
    @api.post(
        PATH,
        {200: Reply.generated(ResponseObject, Event)},
        GENERATES | {404},
        body=ResponseBody,
        example={"input": QUESTION, "max_output_tokens": 16},
        parameters=CONTROL_HEADERS,
    )
    async def create_response() -> Response:
        """Create a response to an input, with or without what was stored before it."""
        return await handlers.create()

    @api.post(
        f"{PATH}/input_tokens",
        {200: Reply.json(InputTokens)},
        {404, 503},
        body=PromptBody,
        example={"input": QUESTION},
    )
    async def count_input_tokens() -> Response:
        """Count the tokens of a response's input."""
        return await handlers.count()

    @api.post(f"{PATH}/compact", {}, {400})
    async def compact() -> Response:
        """Refused: a summary would be no better than one that is asked for."""
        raise RequestError("This server does not compact conversations.", code="unsupported_endpoint")


def _add_stored_routes(api: Api, stored: StoredResponses) -> None:
    one = f"{PATH}/<response_id>"

    @api.get(
        one,
        {200: Reply.generated(ResponseObject, Event)},
        STORED,
        parameters=(
            Parameter("stream", "Follow its events.", {"type": "boolean"}),
            Parameter("starting_after", "Number of the last event that is known.", {"type": "integer"}),
        ),
    )
    async def get_response(response_id: str) -> Response:
        """Get a stored response, or the events of one in the background."""
        return await stored.get(response_id)

    @api.delete(one, {200: Reply.json(DeletedResponse)}, STORED)
    async def delete_response(response_id: str) -> Response:
        """Delete a stored response; one that runs is cancelled."""
        return await stored.delete(response_id)

    @api.post(f"{one}/cancel", {200: Reply.json(ResponseObject)}, STORED)
    async def cancel_response(response_id: str) -> Response:
        """Cancel a response in the background."""
        return await stored.cancel(response_id)

    @api.get(f"{one}/input_items", {200: Reply.json(ItemList)}, STORED, parameters=PAGES["desc"])
    async def list_input_items(response_id: str) -> Response:
        """List the items that a response was made from, a page at a time."""
        return await stored.list_input_items(response_id)


def _add_conversations(api: Api, conversations: ConversationHandlers) -> None:
    one, conversation = f"{CONVERSATIONS}/<conversation_id>", {200: Reply.json(Conversation)}

    @api.post(CONVERSATIONS, conversation, {503}, body=ConversationBody, example=ITEMS | METADATA)
    async def create_conversation() -> Response:
        """Create a conversation, of which responses can be made."""
        return await conversations.create()

    @api.get(one, conversation, STORED)
    async def get_conversation(conversation_id: str) -> Response:
        """Get a conversation."""
        return await conversations.get(conversation_id)

    @api.post(one, conversation, STORED, body=MetadataBody, example=METADATA)
    async def update_conversation(conversation_id: str) -> Response:
        """Update a conversation's metadata: what is sent replaces all of it."""
        return await conversations.update(conversation_id)

    @api.delete(one, {200: Reply.json(DeletedConversation)}, STORED)
    async def delete_conversation(conversation_id: str) -> Response:
        """Delete a conversation, with its items."""
        return await conversations.delete(conversation_id)

    @api.get(f"{one}/items", {200: Reply.json(ItemList)}, STORED, parameters=PAGES["desc"])
    async def list_conversation_items(conversation_id: str) -> Response:
        """List the items of a conversation, a page at a time."""
        return await conversations.list_items(conversation_id)

    @api.post(f"{one}/items", {200: Reply.json(ItemList)}, STORED, body=ItemsBody, example=ITEMS)
    async def add_conversation_items(conversation_id: str) -> Response:
        """Add up to 20 items to a conversation."""
        return await conversations.add_items(conversation_id)

    @api.get(f"{one}/items/<item_id>", {200: Reply.json(Item)}, STORED)
    async def get_conversation_item(conversation_id: str, item_id: str) -> Response:
        """Get an item of a conversation."""
        return await conversations.get_item(conversation_id, item_id)

    @api.delete(f"{one}/items/<item_id>", conversation, STORED)
    async def delete_conversation_item(conversation_id: str, item_id: str) -> Response:
        """Delete an item of a conversation."""
        return await conversations.delete_item(conversation_id, item_id)
