"""The routes of the Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from web.errors.shapes import ErrorRoute
from web.responses.answering import ResponseMaker
from web.responses.errors import ResponseErrors
from web.responses.retrieval import StoredResponses

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from actors.engine import Engine
    from web.http.asgi import ScopedApp
    from web.responses.stored.state import State

PATH = "/v1/responses"
ERRORS = ErrorRoute(PATH, ResponseErrors())
"""The shape of the errors at these URLs."""


def add_routes(app: ScopedApp, engine: Engine, state: State | None, *, write_bytes: int, keep_alive: float) -> None:
    """Add the Responses API to an application.

    Args:
        app: to be extended.
        engine: serves the requests.
        state: where responses are stored, and run in the background; None where they are not.
        write_bytes: of one write to a connection.
        keep_alive: seconds of silence after which a stream says that it is alive.
    """
    maker = ResponseMaker(engine, state, write_bytes, keep_alive)

    @app.post(PATH)
    async def create_response() -> Response:
        return await maker.create()

    @app.post(f"{PATH}/input_tokens")
    async def count_input_tokens() -> Response:
        return await maker.count()

    stored = StoredResponses(engine, state, write_bytes)

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
