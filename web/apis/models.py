"""The model that is served, under the path that OpenAI's and Anthropic's APIs share.

A client of Anthropic's is known by the header that it always sends, and gets answers and errors in Anthropic's shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import RootModel

import web.apis.anthropic.errors as anthropic_errors
import web.apis.anthropic.models as anthropic
import web.apis.openai.models as openai
from runtime.errors import NotFound
from web.bodies.responses import json_response
from web.generation.openai_format.errors import Error
from web.http.asgi import current_request
from web.openapi.operations import Api, Parameter, Reply

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from actors.engine import Engine
    from web.http.asgi import ScopedApp

MODELS = "/v1/models"


class AnthropicError(anthropic_errors.Error):
    """Anthropic's error object."""


class AnyError(RootModel[Error | AnthropicError]):
    """The error object of whose API is asked."""


class AnyModel(RootModel[openai.Model | anthropic.ModelInfo]):
    """A model that is served, in the words of whose API is asked."""


class AnyModelList(RootModel[openai.ModelList | anthropic.ModelPage]):
    """The models that are served, in the words of whose API is asked."""


ASKS_ANTHROPIC = Parameter(
    anthropic.VERSION_HEADER, "Where it is sent, the answer has Anthropic's shape, else OpenAI's.", place="header"
)


def add_routes(app: ScopedApp, engine: Engine) -> None:
    """Add the list of models, and the model by its name.

    Args:
        app: to be extended.
        engine: whose model is shown.
    """
    api = Api(app, "Models", "The served model, for clients of OpenAI's API and of Anthropic's.", AnyError)

    @api.get(MODELS, {200: Reply.json(AnyModelList)}, parameters=(ASKS_ANTHROPIC,))
    async def list_models() -> Response:
        """List the served model, its context, and what requests sample by that do not say."""
        return json_response((anthropic if _asks_anthropic() else openai).model_list(engine.model))

    @api.get(
        f"{MODELS}/<path:name>",
        {200: Reply.json(AnyModel)},
        {404},
        parameters=(Parameter("name", "It may hold slashes.", place="path"), ASKS_ANTHROPIC),
    )
    async def get_model(name: str) -> Response:
        """Get the served model by its name."""
        if name != engine.model.name:
            raise NotFound(f"The model '{name}' does not exist.", param="model", code="model_not_found")
        return json_response((anthropic if _asks_anthropic() else openai).model_object(engine.model))


def _asks_anthropic() -> bool:
    return anthropic.VERSION_HEADER in current_request().headers
