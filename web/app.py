"""The HTTP application: routes over an engine, and nothing of its own that outlives a request."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

import trio
from quart import request as http
from quart_trio.wrappers import TrioResponse as Response

from runtime.errors import RequestError
from web.answers import collect
from web.asgi import ScopedApp, current_request
from web.conversion import Job, chat_job, completion_job
from web.errors import error_object, install_error_handlers, json_response
from web.keys import is_admitted
from web.limits import Limits
from web.streaming import CONTENT_TYPE, HEADERS, ChunkWriter, EventStream

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from actors.engine import Engine
    from actors.loop_watch import LoopWatch
    from runtime.served import ServedModel

logger = logging.getLogger("cede.web")

Parser: TypeAlias = "Callable[[bytes, ServedModel], Job]"

BODY_TIMEOUT = 60  # seconds for the whole upload
LONG_BODY = 32 * 2**10  # bytes; from here on a body is parsed and tokenised in a worker thread


def create_app(
    engine: Engine,
    *,
    keys: Collection[bytes] = (),
    limits: Limits | None = None,
    watch: LoopWatch | None = None,
    keep_alive: float = 10.0,
) -> ScopedApp:
    """The application that serves `engine`, to those who have one of the `keys` if there are any (`web.keys`).

    Clients are held to `limits`.  What `watch` has seen of the event loop is among the statistics.  A silent stream
    gets a comment every `keep_alive` seconds.
    """
    app = ScopedApp("cede", static_folder=None)
    limits = limits or Limits()
    app.config["MAX_CONTENT_LENGTH"] = limits.body_bytes
    app.config["BODY_TIMEOUT"] = BODY_TIMEOUT
    install_error_handlers(app)
    app.after_request(_conclude)
    if keys:
        _require_key(app, keys)
    _add_generation_routes(app, engine, keep_alive)
    _add_model_routes(app, engine)
    _add_inspection_routes(app, engine, watch)
    return app


async def _conclude(response: Response) -> Response:
    asked = current_request()
    if asked.generation_id:
        response.headers["x-request-id"] = asked.generation_id
    # As a literal: what the client sent may have line ends.
    logger.debug("%r: %d %s", f"{asked.method} {asked.path}", response.status_code, asked.generation_id or "-")
    return response


def _require_key(app: ScopedApp, keys: Collection[bytes]) -> None:
    @app.before_request
    async def check_key() -> Response | None:
        """Refuse before the body is read.  Whoever looks after the server's health needs no key."""
        asked = current_request()
        if asked.path == "/health" or is_admitted(asked.headers.get("Authorization", ""), keys):
            return None
        error = error_object("Missing or incorrect API key.", "invalid_request_error", code="invalid_api_key")
        return json_response(error, 401, {"WWW-Authenticate": "Bearer"})


# --- generation -----------------------------------------------------------------------------------------


def _add_generation_routes(app: ScopedApp, engine: Engine, keep_alive: float) -> None:
    @app.post("/v1/chat/completions")
    async def chat_completions() -> Response:
        return await _generate(engine, await _read_job(chat_job, engine.model), keep_alive)

    @app.post("/v1/completions")
    async def completions() -> Response:
        return await _generate(engine, await _read_job(completion_job, engine.model), keep_alive)


async def _read_job(parse: Parser, model: ServedModel) -> Job:
    """The job in the request's body.  A long one must not stall everyone's tokens, so a thread reads it."""
    raw = await current_request().get_data(cache=False, as_text=False, parse_form_data=False)
    if len(raw) < LONG_BODY:
        return parse(raw, model)
    return await trio.to_thread.run_sync(parse, raw, model)


async def _generate(engine: Engine, job: Job, keep_alive: float) -> Response:
    """Opens the request and answers it, as a stream or whole.  What opening raises is an ordinary error."""
    here = current_request()
    here.generation_id = job.request.id
    opening = engine.open_request(job.request, disconnect_reason=here.disconnect_reason)
    if not job.stream:
        async with opening as request:
            answer = await collect(request, job.reply, job.format)
        return json_response(answer.result())
    request = await here.resources.enter_async_context(opening)
    writer = ChunkWriter(job.reply, job.format)
    body = EventStream(request, writer, keep_alive, leave=here.resources.aclose)
    return Response(body, headers=HEADERS, content_type=CONTENT_TYPE)


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
    """OpenAI's model object, with vLLM's name for the context length."""
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "cede",
        "max_model_len": model.context_length,
    }


# --- the engine's state ---------------------------------------------------------------------------------


def _add_inspection_routes(app: ScopedApp, engine: Engine, watch: LoopWatch | None) -> None:
    @app.get("/health")
    async def health() -> Response:
        if (reason := engine.health()) is None:
            return json_response({"status": "ok"})
        error = error_object(reason, "unavailable_error", code="unhealthy")
        return json_response({"status": "unavailable"} | error, 503)

    @app.get("/slots")
    async def slots() -> Response:
        return json_response({"slots": [asdict(slot) for slot in engine.slots()]})

    @app.get("/v1/requests")
    async def requests() -> Response:
        return json_response({"data": [asdict(status) for status in engine.requests()]})

    @app.get("/v1/receipts")
    async def receipts() -> Response:
        return json_response({"data": [asdict(receipt) for receipt in engine.receipts(_limit())]})

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
