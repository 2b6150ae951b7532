"""The model that is served, under the path that OpenAI's and Anthropic's APIs share.

A client of Anthropic's is known by the header that it always sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import web.anthropic.models as anthropic
import web.openai.models as openai
from runtime.errors import NotFound
from web.bodies.json_response import json_response
from web.http.asgi import current_request

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from actors.engine import Engine
    from web.http.asgi import ScopedApp

MODELS = "/v1/models"


def add_routes(app: ScopedApp, engine: Engine) -> None:
    """Add the list of models, and the model by its name.

    Args:
        app: to be extended.
        engine: whose model is shown.
    """

    @app.get(MODELS)
    async def models() -> Response:
        return json_response((anthropic if _asks_anthropic() else openai).model_list(engine.model))

    @app.get(f"{MODELS}/<path:name>")
    async def model(name: str) -> Response:
        if name != engine.model.name:
            raise NotFound(f"The model '{name}' does not exist.", param="model", code="model_not_found")
        return json_response((anthropic if _asks_anthropic() else openai).model_object(engine.model))


def _asks_anthropic() -> bool:
    return anthropic.VERSION_HEADER in current_request().headers
