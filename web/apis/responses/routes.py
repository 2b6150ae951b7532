"""The routes of the Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import QueueFull, RequestError
from web.apis.responses.answering import ResponseHandlers
from web.apis.responses.answers import Event, InputTokens
from web.apis.responses.answers import Response as ResponseObject
from web.apis.responses.conversations import CONVERSATIONS, QUESTION, add_conversations
from web.apis.responses.input.schemas import PromptBody, ResponseBody
from web.apis.responses.retrieval import PATH, add_stored_routes
from web.bodies.errors.problem import ErrorRoute, ErrorShape
from web.generation.control.fields import CONTROL_HEADERS
from web.generation.openai_format.errors import Error, error_object
from web.openapi.operations import GENERATES, Api, Reply

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.apis.responses.stored.state import State
    from web.bodies.errors.problem import Problem
    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp


def status_of(problem: Problem) -> int:
    """Return the status of a problem: a full queue is a 503 here, since clients of this API retry that, and no 429."""
    return 503 if problem.code == QueueFull.code else problem.status


ERRORS = tuple(ErrorRoute(path, ErrorShape(error_object, status_of)) for path in (PATH, CONVERSATIONS))
"""The shape of the errors at these URLs: OpenAI's."""


def add_routes(app: ScopedApp, responder: Responder, state: State | None) -> None:
    """Add the Responses API to an application.

    Args:
        app: to be extended.
        responder: opens the requests.
        state: where responses are stored, and run in the background; None where they are not.
    """
    api = Api(app, "Responses", "OpenAI's Responses API; a full queue is a 503 here, and not a 429.", Error)
    handlers = ResponseHandlers(responder, state)

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

    add_stored_routes(api, responder, state)
    add_conversations(api, responder, state)
