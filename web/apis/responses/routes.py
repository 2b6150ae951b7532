"""The routes of the Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.apis.responses.answering import ResponseHandlers
from web.apis.responses.conversations import ConversationHandlers
from web.apis.responses.errors import ResponseErrors
from web.apis.responses.retrieval import StoredResponses
from web.bodies.errors.shapes import ErrorRoute

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.apis.responses.stored.state import State
    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp

PATH = "/v1/responses"
CONVERSATIONS = "/v1/conversations"
ERRORS = (ErrorRoute(PATH, ResponseErrors()), ErrorRoute(CONVERSATIONS, ResponseErrors()))
"""The shape of the errors at these URLs."""


def add_routes(app: ScopedApp, responder: Responder, state: State | None) -> None:
    """Add the Responses API to an application.

    Args:
        app: to be extended.
        responder: opens the requests.
        state: where responses are stored, and run in the background; None where they are not.
    """
    handlers = ResponseHandlers(responder, state)

    @app.post(PATH)
    async def create_response() -> Response:
        return await handlers.create()

    @app.post(f"{PATH}/input_tokens")
    async def count_input_tokens() -> Response:
        return await handlers.count()

    @app.post(f"{PATH}/compact")
    async def compact() -> Response:
        raise RequestError("This server does not compact conversations.", code="unsupported_endpoint")

    stored = StoredResponses(responder.engine, state, responder.write_bytes)

    @app.get(f"{PATH}/<response_id>")
    async def get_response(response_id: str) -> Response:
        return await stored.get(response_id)

    @app.delete(f"{PATH}/<response_id>")
    async def delete_response(response_id: str) -> Response:
        return await stored.delete(response_id)

    @app.post(f"{PATH}/<response_id>/cancel")
    async def cancel_response(response_id: str) -> Response:
        return await stored.cancel(response_id)

    @app.get(f"{PATH}/<response_id>/input_items")
    async def list_input_items(response_id: str) -> Response:
        return await stored.list_input_items(response_id)

    _add_conversations(app, ConversationHandlers(responder, None if state is None else state.conversations))


def _add_conversations(app: ScopedApp, conversations: ConversationHandlers) -> None:
    one = f"{CONVERSATIONS}/<conversation_id>"

    @app.post(CONVERSATIONS)
    async def create_conversation() -> Response:
        return await conversations.create()

    @app.get(one)
    async def get_conversation(conversation_id: str) -> Response:
        return await conversations.get(conversation_id)

    @app.post(one)
    async def update_conversation(conversation_id: str) -> Response:
        return await conversations.update(conversation_id)

    @app.delete(one)
    async def delete_conversation(conversation_id: str) -> Response:
        return await conversations.delete(conversation_id)

    @app.get(f"{one}/items")
    async def list_conversation_items(conversation_id: str) -> Response:
        return await conversations.list_items(conversation_id)

    @app.post(f"{one}/items")
    async def add_conversation_items(conversation_id: str) -> Response:
        return await conversations.add_items(conversation_id)

    @app.get(f"{one}/items/<item_id>")
    async def get_conversation_item(conversation_id: str, item_id: str) -> Response:
        return await conversations.get_item(conversation_id, item_id)

    @app.delete(f"{one}/items/<item_id>")
    async def delete_conversation_item(conversation_id: str, item_id: str) -> Response:
        return await conversations.delete_item(conversation_id, item_id)
