"""The routes that fill in the middle."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from web.apis.infill.answers import InfillAnswer, InfillPiece
from web.apis.infill.parse import parse_fim, parse_infill
from web.apis.infill.schemas import FimBody, InfillBody
from web.generation.control.fields import CONTROL_HEADERS
from web.generation.openai_format.chat.answers import ChatCompletion, ChatCompletionChunk
from web.generation.openai_format.errors import Error
from web.openapi.operations import GENERATES, Api, Reply

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.generation.openai_format.requests import Settings
    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp


def add_routes(app: ScopedApp, responder: Responder, settings: Settings) -> None:
    """Add the routes to an application.

    Args:
        app: to be extended.
        responder: answers those that generate.
        settings: how this server speaks OpenAI's API, whose fields these bodies have.
    """
    about = "What fills a gap between two texts, in llama-server's shape and in Mistral's."
    api = Api(app, "Infill", about, Error)

    @api.post(
        "/infill",
        {200: Reply.generated(InfillAnswer, InfillPiece)},
        GENERATES,
        body=InfillBody,
        example={"input_prefix": "def add(a, b):\n    return ", "input_suffix": "\n", "n_predict": 16},
        parameters=CONTROL_HEADERS,
    )
    async def infill() -> Response:
        """Create an infill, as llama-server does; refused where the model has no tokens for that."""
        return await responder(partial(parse_infill, settings=settings))

    @api.post(
        "/v1/fim/completions",
        {200: Reply.generated(ChatCompletion, ChatCompletionChunk)},
        GENERATES,
        body=FimBody,
        example={"model": "any", "prompt": "def add(a, b):", "max_tokens": 16},
        parameters=CONTROL_HEADERS,
    )
    async def create_fim_completion() -> Response:
        """Create a fill-in-the-middle completion, as Mistral's API does; without a suffix, a plain one."""
        return await responder(partial(parse_fim, settings=settings))
