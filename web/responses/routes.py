"""The routes of the Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from web.errors.shapes import ErrorRoute
from web.responses.answering import ResponseMaker
from web.responses.errors import ResponseErrors
from web.responses.retrieval import StoredResponses

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp
    from web.responses.stored.state import State

PATH = "/v1/responses"
ERRORS = ErrorRoute(PATH, ResponseErrors())
"""The shape of the errors at these URLs."""


def add_routes(app: ScopedApp, responder: Responder, state: State | None) -> None:
    """Add the Responses API to an application.

    Args:
        app: to be extended.
        responder: opens the requests.
        state: where responses are stored, and run in the background; None where they are not.
    """
    maker = ResponseMaker(responder, state)

    @app.post(PATH)
    async def create_response() -> Response:
        return await maker.create()

    @app.post(f"{PATH}/input_tokens")
    async def count_input_tokens() -> Response:
        return await maker.count()

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
