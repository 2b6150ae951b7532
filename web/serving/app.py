"""The HTTP application over an engine: the API's routes, the engine's state, and who may use them.

Nothing in here outlives a request but what `State` has: stored responses, and those in the background.
Another API is added beside OpenAI's in `create_app`.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from quart_trio.wrappers import TrioResponse as Response

from runtime.common.log_text import literal
from web.apis.anthropic.errors import ANTHROPIC_ERRORS
from web.apis.anthropic.models import VERSION_HEADER
from web.apis.anthropic.routes import MESSAGES
from web.apis.anthropic.routes import add_routes as add_anthropic_routes
from web.apis.infill.routes import add_routes as add_infill_routes
from web.apis.models import MODELS
from web.apis.models import add_routes as add_model_routes
from web.apis.ollama.answers import OLLAMA_ERRORS
from web.apis.ollama.routes import add_routes as add_ollama_routes
from web.apis.openai.routes import add_routes as add_openai_routes
from web.apis.responses.routes import ERRORS as RESPONSE_ERRORS
from web.apis.responses.routes import add_routes as add_response_routes
from web.apis.utilities.routes import add_routes as add_utility_routes
from web.bodies.errors.handlers import install_error_handlers
from web.bodies.errors.problem import ErrorRoute, ErrorShapes
from web.generation.control.groups import add_routes as add_group_routes
from web.generation.openai_format.errors import OPENAI_ERRORS, Error
from web.generation.openai_format.requests import Settings as OpenAISettings
from web.generation.responder import Responder
from web.http.asgi import ScopedApp, current_request
from web.http.body_budget import BodyBudget
from web.http.browser_policy import BrowserPolicy, preflight_headers
from web.observability.inspection.feed.feed import Feed
from web.observability.inspection.feed.routes import add_routes as add_feed_routes
from web.observability.inspection.routes import add_routes as add_inspection_routes
from web.observability.metrics.metrics import Metrics
from web.observability.metrics.metrics import add_routes as add_metrics_routes
from web.observability.page.files import BASE_VIEWS, SERVER_VIEWS
from web.observability.page.routes import add_routes as add_page_routes
from web.openapi.operations import Api, operations_of, path_pattern
from web.openapi.routes import add_routes as add_document_routes
from web.process.access.usage import KeyUsage
from web.process.limits import Limits
from web.process.options import Wire
from web.storage.detached.routes import add_routes as add_detached_routes

if TYPE_CHECKING:
    from actors.diagnostics.loop_watch import LoopWatch
    from actors.engine import Engine
    from web.apis.responses.stored.state import State
    from web.process.access.api_keys import KeyRing

logger = logging.getLogger("cede.web")

ERROR_SHAPES = ErrorShapes(
    OPENAI_ERRORS,
    (
        *RESPONSE_ERRORS,
        ErrorRoute(MESSAGES, ANTHROPIC_ERRORS),
        ErrorRoute(MODELS, ANTHROPIC_ERRORS, header=VERSION_HEADER),
        ErrorRoute("/api", OLLAMA_ERRORS),
    ),
)
"""Whose error objects a request gets, whatever is wrong with it."""


def create_app(
    engine: Engine,
    *,
    keys: KeyRing | None = None,
    usage: KeyUsage | None = None,
    browser_policy: BrowserPolicy | None = None,
    limits: Limits | None = None,
    state: State | None = None,
    watch: LoopWatch | None = None,
    metrics: Metrics | None = None,
    feed: Feed | None = None,
    keep_alive: float = 10.0,
    wire: Wire | None = None,
) -> ScopedApp:
    """Make the application that serves `engine`.

    Args:
        engine: open.
        keys: API keys, one of which a client has to have; none to serve everybody.
        usage: counts what each key takes.
        browser_policy: which web pages are served beside those that always are.
        limits: what clients may take of the server.
        state: what is stored, and what runs in the background; None for neither.
        watch: of the event loop; the statistics have what it has seen.
        metrics: of the engine; None for those that need no feeding.
        feed: of the engine; None for one that ends with its viewers.
        keep_alive: seconds of silence after which a stream says that it is alive.
        wire: how answers are written, where clients differ.
    """
    app = ScopedApp("cede", static_folder=None)
    limits = limits or Limits()
    app.config["MAX_CONTENT_LENGTH"] = limits.body_bytes
    app.bodies = BodyBudget(limits.bodies_bytes)
    install_error_handlers(app, ERROR_SHAPES)
    app.after_request(_finish_response)
    apply_browser_policy(app, browser_policy or BrowserPolicy())
    in_vllms_words = (wire or Wire()).reasoning_field == "reasoning"
    openai = OpenAISettings(reasoning="reasoning" if in_vllms_words else "reasoning_content")
    runs = None if state is None else state.runs
    responder = Responder(engine, limits.write_bytes, keep_alive, runs)
    add_openai_routes(app, responder, None if state is None else state.store, openai)
    add_response_routes(app, responder, state)
    add_anthropic_routes(app, responder)
    add_ollama_routes(app, responder)
    add_infill_routes(app, responder, openai)
    add_utility_routes(app, responder)
    add_model_routes(app, engine)
    cede = Api(app, "Cede", "The state of the engine, the cancel of a request, and this document.", Error)
    add_inspection_routes(cede, engine, limits.write_bytes, watch, runs)
    add_detached_routes(cede, engine, runs, limits.write_bytes)
    add_group_routes(cede, engine, limits.write_bytes)
    add_feed_routes(cede, feed or Feed(engine, runs), limits.write_bytes, keep_alive)
    add_metrics_routes(cede, metrics or Metrics(engine, runs=runs))
    add_document_routes(cede, engine.unread, keyed=bool(keys), write_bytes=limits.write_bytes)
    views = SERVER_VIEWS if engine.model.chat is not None else BASE_VIEWS
    add_page_routes(app, engine.unread, limits.write_bytes, views)
    if keys:
        _require_key(app, keys, usage or KeyUsage())
    return app


async def _finish_response(response: Response) -> Response:
    """Add the request's id, and log the response."""
    http_request = current_request()
    if http_request.generation_id:
        response.headers["x-request-id"] = http_request.generation_id
    failed = response.status_code >= 400
    figures = {
        "method": http_request.method,
        "path": http_request.path,
        "status": response.status_code,
        "problem": http_request.problem or None,
        "key": http_request.owner,
    }
    logger.log(
        logging.INFO if failed else logging.DEBUG,
        "%s: %d %s",
        literal(f"{http_request.method} {http_request.path}"),
        response.status_code,
        literal(http_request.problem) if failed else http_request.generation_id or "-",
        extra=figures,
    )
    return response


def apply_browser_policy(app: ScopedApp, policy: BrowserPolicy) -> None:
    """Let an application refuse what a web page may not ask of it."""

    @app.before_request
    async def check_browser() -> Response | None:
        """Refuse before the body is read, and before a key is asked for, which preflight requests do not send."""
        http_request = current_request()
        local, *_ = http_request.scope.get("server") or (None,)
        policy.check(http_request.method, local, http_request.headers)
        if http_request.method == "OPTIONS" and (headers := preflight_headers(http_request.headers)) is not None:
            return Response(b"", 204, headers)
        return None

    @app.after_request
    async def add_cors_headers(response: Response) -> Response:
        response.headers.update(policy.cors_headers(current_request().headers.get("Origin")))
        return response


def _require_key(app: ScopedApp, keys: KeyRing, usage: KeyUsage) -> None:
    """Let an application, whole as it is, refuse whoever has no key, but for what is open."""
    open_paths = re.compile("|".join(path_pattern(each.path) for each in operations_of(app) if each.open))

    @app.before_request
    async def check_key() -> None:
        """Refuse before the body is read."""
        http_request = current_request()
        if not open_paths.fullmatch(http_request.path):
            http_request.key = keys.find(http_request.headers)
            http_request.admission = usage.admit(http_request.key)

    @app.after_request
    async def add_limits(response: Response) -> Response:
        if (key := current_request().key) is not None:
            response.headers.update(usage.headers(key))
        return response
