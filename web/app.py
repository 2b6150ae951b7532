"""The HTTP application: routes over an engine, and nothing of its own that outlives a request."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import trio
from quart import request as http
from quart_trio.wrappers import TrioResponse as Response

from runtime.errors import RequestError
from runtime.log_text import literal
from web.bodies.body_parser import BodyParser
from web.bodies.json_encoding import LazyJsonArray
from web.bodies.paged_response import paged_json_response
from web.http.api_keys import is_authorized
from web.http.asgi import ScopedApp, current_request
from web.http.body_budget import BodyBudget
from web.http.browser_policy import BrowserPolicy, preflight_headers
from web.limits import Limits
from web.openai.chunks import CONTENT_TYPE, HEADERS, ChunkWriter, EventStream
from web.openai.conversion import parse_chat, parse_completion
from web.openai.errors import error_object, install_error_handlers, json_response
from web.openai.response_builder import ResponseBuilder, collect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from _typeshed import DataclassInstance

    from actors.diagnostics.loop_watch import LoopWatch
    from actors.engine import Engine
    from runtime.loading.served import ServedModel
    from web.bodies.body_parser import Parser
    from web.openai.conversion import ParsedRequest

logger = logging.getLogger("cede.web")

BODY_TIMEOUT = 60  # seconds for the whole upload


def create_app(
    engine: Engine,
    *,
    keys: Collection[bytes] = (),
    allowed: BrowserPolicy | None = None,
    limits: Limits | None = None,
    watch: LoopWatch | None = None,
    keep_alive: float = 10.0,
) -> ScopedApp:
    """The application that serves `engine`, to those who have one of the `keys` if there are any (`web.http.api_keys`).

    Web pages are served as far as they are `allowed`.  Clients are held to `limits`.  What `watch` has seen of the
    event loop is among the statistics.  A silent stream gets a comment every `keep_alive` seconds.
    """
    app = ScopedApp("cede", static_folder=None)
    limits = limits or Limits()
    app.config["MAX_CONTENT_LENGTH"] = limits.body_bytes
    app.bodies = BodyBudget(limits.bodies_bytes)
    install_error_handlers(app)
    app.after_request(_conclude)
    _refuse_strange_pages(app, allowed or BrowserPolicy())
    if keys:
        _require_key(app, keys)
    _add_generation_routes(app, engine, limits.write_bytes, keep_alive)
    _add_model_routes(app, engine)
    _add_inspection_routes(app, engine, limits.write_bytes, watch)
    return app


async def _conclude(response: Response) -> Response:
    asked = current_request()
    if asked.generation_id:
        response.headers["x-request-id"] = asked.generation_id
    failed = response.status_code >= 400
    logger.log(
        logging.INFO if failed else logging.DEBUG,
        "%s: %d %s",
        literal(f"{asked.method} {asked.path}"),
        response.status_code,
        literal(asked.problem) if failed else asked.generation_id or "-",
    )
    return response


def _refuse_strange_pages(app: ScopedApp, allowed: BrowserPolicy) -> None:
    @app.before_request
    async def check_page() -> Response | None:
        """Refuse before the body is read, and before a key is asked for: a browser that asks first sends none."""
        asked = current_request()
        local, *_ = asked.scope.get("server") or (None,)
        allowed.check(asked.method, local, asked.headers)
        if asked.method == "OPTIONS" and (answer := preflight_headers(asked.headers)) is not None:
            return Response(b"", 204, answer)
        return None

    @app.after_request
    async def let_page_read(response: Response) -> Response:
        response.headers.update(allowed.cors_headers(current_request().headers.get("Origin")))
        return response


def _require_key(app: ScopedApp, keys: Collection[bytes]) -> None:
    @app.before_request
    async def check_key() -> Response | None:
        """Refuse before the body is read.  Whoever looks after the server's health needs no key."""
        asked = current_request()
        if asked.path == "/health" or is_authorized(asked.headers.get("Authorization", ""), keys):
            return None
        error = error_object("Missing or incorrect API key.", "invalid_request_error", code="invalid_api_key")
        return json_response(error, 401, {"WWW-Authenticate": "Bearer"})


# --- generation -----------------------------------------------------------------------------------------


def _add_generation_routes(app: ScopedApp, engine: Engine, write_bytes: int, keep_alive: float) -> None:
    reader = BodyParser(engine)

    async def generate(parse: Parser) -> Response:
        parsed = await _read_job(reader, parse)
        current_request().generation_id = parsed.request.id
        if parsed.stream:
            return await _stream(engine, parsed, write_bytes, keep_alive)
        return await _answer(engine, parsed, write_bytes)

    @app.post("/v1/chat/completions")
    async def chat_completions() -> Response:
        return await generate(parse_chat)

    @app.post("/v1/completions")
    async def completions() -> Response:
        return await generate(parse_completion)


async def _read_job(reader: BodyParser, parse: Parser) -> ParsedRequest:
    """The job in the request's body."""
    body = current_request().body
    raw = await body.read(BODY_TIMEOUT)
    with body.reservation:  # until it is understood
        return await reader.read(parse, raw)


async def _stream(engine: Engine, parsed: ParsedRequest, write_bytes: int, keep_alive: float) -> Response:
    """Opens the request and answers it as a stream.  What opening raises is an ordinary error."""
    here = current_request()
    opening = engine.open_request(parsed.request, disconnect_reason=here.disconnect_reason)
    request = await here.resources.enter_async_context(opening)
    writer = ChunkWriter(parsed.options, parsed.format)
    body = EventStream(request, writer, keep_alive, here.resources.aclose, write_bytes)
    return Response(body, headers=HEADERS, content_type=CONTENT_TYPE)


async def _answer(engine: Engine, parsed: ParsedRequest, write_bytes: int) -> Response:
    """Opens the request and answers it whole.  What opening raises, or a generation, is an ordinary error."""
    here = current_request()
    account = here.resources.enter_context(engine.unread.account(f"request {parsed.request.id}", gathering=True))
    async with engine.open_request(parsed.request, disconnect_reason=here.disconnect_reason) as request:
        answer = await collect(request, ResponseBuilder(parsed.options, parsed.format, write_bytes), account)
    return await paged_json_response(answer, account, write_bytes)


# --- models ---------------------------------------------------------------------------------------------


def _add_model_routes(app: ScopedApp, engine: Engine) -> None:
    @app.get("/v1/models")
    async def models() -> Response:
        return json_response({"object": "list", "data": [_model_card(engine.model)]})

    @app.get("/v1/models/<path:name>")
    async def model(name: str) -> Response:
        if name != engine.model.name:
            return _not_found(f"The model '{name}' does not exist.", "model", "model_not_found")
        return json_response(_model_card(engine.model))


def _model_card(model: ServedModel) -> dict[str, Any]:
    """OpenAI's model object, with vLLM's name for the context length, and what requests sample by unless they say."""
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "cede",
        "max_model_len": model.context_length,
        "sampling_defaults": model.sampling.values() | {"sources": dict(model.sampling.sources)},
    }


# --- the engine's state ---------------------------------------------------------------------------------


def _add_inspection_routes(app: ScopedApp, engine: Engine, write_bytes: int, watch: LoopWatch | None) -> None:
    async def rows(name: str, values: Iterable[DataclassInstance]) -> Response:
        """An object with one array, which may be long."""
        here = current_request()
        account = here.resources.enter_context(engine.unread.account(f"GET {here.path}", gathering=True))
        return await paged_json_response({name: LazyJsonArray(map(asdict, values))}, account, write_bytes)

    @app.get("/health")
    async def health() -> Response:
        if (reason := engine.health()) is None:
            return json_response({"status": "ok"})
        error = error_object(reason, "unavailable_error", code="unhealthy")
        return json_response({"status": "unavailable"} | error, 503)

    @app.get("/slots")
    async def slots() -> Response:
        return await rows("slots", engine.slots())

    @app.get("/v1/requests")
    async def requests() -> Response:
        return await rows("data", engine.requests())

    @app.get("/v1/receipts")
    async def receipts() -> Response:
        return await rows("data", engine.receipts(_limit()))

    @app.get("/v1/statistics")
    async def statistics() -> Response:
        tasks = trio.lowlevel.current_statistics().tasks_living
        loop = {} if watch is None else {"loop": asdict(watch.statistics())}
        return json_response(asdict(engine.statistics()) | {"tasks": tasks} | loop)

    @app.delete("/v1/requests/<request_id>")
    async def cancel(request_id: str) -> Response:
        if not engine.cancel(request_id):
            return _not_found(f"There is no live request '{request_id}'.", "request_id", "request_not_found")
        return json_response({"id": request_id, "cancelled": True})


def _limit(default: int = 100) -> int:
    given = http.args.get("limit", "")
    if not given:
        return default
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise RequestError("Invalid 'limit': it should be a non-negative integer.", param="limit")
    return int(given)


def _not_found(message: str, param: str, code: str) -> Response:
    return json_response(error_object(message, "invalid_request_error", param, code), 404)
