"""The server from start to exit: what is open, in which order, and how it ends.

`run_server` reads as the order of lifetimes: sockets, device thread, engine, stored answers, connections.
Each ends before what it stands on, and every request ends before the engine does, because connections live inside it.
"""

from __future__ import annotations

import logging
import os
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import trio
from hypercorn.app_wrappers import ASGIWrapper

from actors.diagnostics.loop_watch import LoopWatch, watch_loop
from actors.kv.config import CacheConfig, TierOptions
from actors.opening import open_loaded
from runtime.checkpoint.sampling_defaults import SamplingDefaults
from runtime.errors import DeviceLost
from web.apis.responses.stored.state import open_state
from web.http.browser_policy import BrowserPolicy
from web.http.listeners import hypercorn_config, listen, open_listeners, url_of
from web.http.transport.serve import Listener, serve_connections
from web.observability.inspection.feed.feed import Feed
from web.observability.metrics.metrics import Metrics
from web.process.access.api_keys import KeyRing, plain_key
from web.process.access.key_file import reload_on_hangup
from web.process.access.usage import KeyUsage, TokenMeter
from web.process.descriptors import fit_descriptors
from web.process.hooks import ServerHooks
from web.process.limits import Limits
from web.process.options import Patience, StateOptions, Wire
from web.process.signals import exit_now
from web.serving.app import create_app
from web.serving.stopping import stop_on_signal, stop_when_lost

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from actors.config import EngineConfig
    from actors.engine import Engine
    from runtime.loading.options import LoadOptions
    from runtime.nn.model import Transformer
    from runtime.step.thread_executor import ThreadExecutor
    from web.apis.responses.stored.state import State
    from web.process.access.api_keys import ApiKey
    from web.serving.ranks import RankProcesses

logger = logging.getLogger("cede.web")

# How long a client may take over the last bytes of its response once everything else has ended.
LINGER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Entrance:
    """Whom to serve over HTTP, and what clients may take.

    Attributes:
        tls: with the server's certificate (`web.http.listeners.tls_context`); None for no TLS.
        keys: of which a client has to have one; none to serve everybody.
        read_keys: reads them again when SIGHUP comes; None where they are in no file.
        browser_policy: pages and names to serve beside those that need no leave.
        limits: what clients may take of the server.
        wire: how answers are written, where clients differ.
        metrics_compat: whose names the metrics have beside cede's.
    """

    tls: ssl.SSLContext | None = None
    keys: KeyRing = field(default_factory=KeyRing)
    read_keys: Callable[[], list[ApiKey]] | None = None
    browser_policy: BrowserPolicy = field(default_factory=BrowserPolicy)
    limits: Limits = field(default_factory=Limits)
    wire: Wire = field(default_factory=Wire)
    metrics_compat: str = "none"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of a server: what to serve, how and where.

    Attributes:
        load: what to load, and in which form; who drafts is its to say, and the engine is told.
        model_name: as the API shows it.
        engine: how the engine shares its device; `slots` as `load` has it.
        sampling: what requests that do not say otherwise sample by.
        tiers: where KV is kept outside the slots.
        cache: how it is kept.
        entrance: whom to serve.
        state: what is kept of answers.
        patience: how long the server waits for its own work.
        watch_loop: seconds from which on it is noted who held the event loop; None to watch nothing.
        traced: whether traces of requests are exported (`web.observability.tracing.asked`).
        record: the file that a recording of the engine is written to; None for none.
    """

    load: LoadOptions
    model_name: str
    engine: EngineConfig
    sampling: SamplingDefaults = field(default_factory=SamplingDefaults)
    tiers: TierOptions = field(default_factory=TierOptions)
    cache: CacheConfig = field(default_factory=CacheConfig)
    entrance: Entrance = field(default_factory=Entrance)
    state: StateOptions = field(default_factory=StateOptions)
    patience: Patience = field(default_factory=Patience)
    watch_loop: float | None = None
    traced: bool = False
    record: Path | None = None


async def run_server(
    options: ServerOptions,
    sockets: Sequence[socket.socket],
    *,
    progress: Callable[[int, int], None] | None = None,
    announce: Callable[[str], None],
    hooks: ServerHooks | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then wind down; returns once all has ended.

    Args:
        options: see there.
        sockets: where requests come in, once the model is loaded (`web.http.listeners.bound_sockets`).
        progress: of the weights' loading, in bytes done and in all.
        announce: called once with the server's URL, when requests are accepted.
        hooks: put in place of some of its parts; `hooks.clock` is up to whoever starts Trio.

    Raises:
        CheckpointError: the model, or what is to draft for it, cannot be loaded, or its files change meanwhile.
        ListenError: somebody else listens at the address by now.
        KVFolderError: the disk tier's folder cannot be used.
        StateFolderError: the folder for stored answers cannot be used.
        RecordingError: the file for a recording cannot be written.
        DeviceLost: another rank has ended, so this one could compute nothing.
    """
    hooks = hooks or ServerHooks()
    async with (
        _open_ranks(options.load.tensor_parallel) as ranks,
        _open_engine(options, progress, hooks, ranks) as (engine, executor),
        _open_exports(engine, options),
        open_state(engine, options.state) as state,
    ):
        await _serve_until_signal(options, engine, state, sockets, announce, hooks, ranks)
    if ranks is not None and ranks.lost is not None:
        raise DeviceLost(ranks.lost)
    if executor.hangs:
        logger.error("the device thread has not come back, and the process ends without it")
    if executor.hangs or state.store.hangs:
        exit_now(1)  # what runs at an ordinary exit might wait for that thread, or pull from under it what it uses
    logger.info("stopped; requests served: %d", engine.served)


@asynccontextmanager
async def open_server(
    options: ServerOptions, key: str, progress: Callable[[int, int], None] | None = None
) -> AsyncIterator[str]:
    """A server for this process alone, while the scope lasts: its URL, on loopback.  Signals are the caller's.

    Args:
        options: as for `run_server`; the port is one that is free.
        key: which nobody else knows: others on this machine can reach the port, too.
        progress: of the weights' loading.

    Raises:
        CedeError: as `run_server`.
    """
    entrance = replace(options.entrance, keys=KeyRing([plain_key(key.encode())]), tls=None, read_keys=None)
    stop = trio.Event()
    async with (
        open_listeners("127.0.0.1", 0) as listeners,
        _open_ranks(options.load.tensor_parallel) as ranks,
        _open_engine(options, progress, ServerHooks(), ranks) as (engine, _),
        open_state(engine, options.state) as state,
        trio.open_nursery() as serving,
    ):
        await serving.start(partial(serve_engine, engine, listeners, stop, entrance, state=state))
        yield url_of(listeners, "http")
        stop.set()


def _open_ranks(of: int) -> AbstractAsyncContextManager[RankProcesses | None]:
    """Open the other ranks' processes; of a model that is computed in this one alone nothing of theirs is imported."""
    if of == 1:
        return nullcontext()
    from web.serving.ranks import open_ranks

    return open_ranks(of)


@asynccontextmanager
async def _open_exports(engine: Engine, options: ServerOptions) -> AsyncIterator[None]:
    """Export traces and record what the engine does, where that is asked for, while the scope lasts."""
    async with AsyncExitStack() as stack:
        if options.traced:
            from web.observability.tracing.export import open_tracing

            await stack.enter_async_context(open_tracing(engine, os.environ))
        if options.record is not None:
            from web.observability.recording.recorder import open_recording

            await stack.enter_async_context(open_recording(engine, options.record))
        yield


@asynccontextmanager
async def _open_engine(
    options: ServerOptions,
    progress: Callable[[int, int], None] | None,
    hooks: ServerHooks,
    ranks: RankProcesses | None,
) -> AsyncIterator[tuple[Engine, ThreadExecutor[Transformer]]]:
    """The engine over the model, and what runs its steps, with what they are fitted with."""
    async with (
        open_loaded(
            options.load,
            options.model_name,
            options.engine,
            sampling=options.sampling,
            tiers=options.tiers,
            cache=options.cache,
            hang_timeout=options.patience.hang_timeout,
            progress=progress,
            others=None if ranks is None else ranks.others,
            wrap=hooks.model,
            open_blocks=hooks.disk_blocks,
        ) as (engine, executor),
        hooks.attend(engine),
    ):
        yield engine, executor


async def _serve_until_signal(
    options: ServerOptions,
    engine: Engine,
    state: State,
    sockets: Sequence[socket.socket],
    announce: Callable[[str], None],
    hooks: ServerHooks,
    ranks: RankProcesses | None,
) -> None:
    """Serve the engine; the connections end before the task that listens for signals does."""
    stop = trio.Event()
    watch = None if options.watch_loop is None else LoopWatch(options.watch_loop)
    entrance = replace(options.entrance, limits=fit_descriptors(options.entrance.limits))
    async with trio.open_nursery() as services:
        await services.start(stop_on_signal, engine, hooks, options.patience.grace, stop)
        if ranks is not None:
            services.start_soon(stop_when_lost, ranks, engine, hooks, stop)
        if entrance.read_keys is not None:
            await services.start(reload_on_hangup, entrance.keys, entrance.read_keys)
        async with trio.open_nursery() as serving:
            listeners = listen(sockets)
            await serving.start(partial(serve_engine, engine, listeners, stop, entrance, state=state, watch=watch))
            url = url_of(listeners, "http" if entrance.tls is None else "https")
            _log_start(engine, url)
            announce(url)
            if watch is not None:  # from now on; until here the loop may be held
                services.start_soon(watch_loop, watch)
        services.cancel_scope.cancel()


def _log_start(engine: Engine, url: str) -> None:
    """Log what whoever started it may want to know; `runtime.loading.load` and the tiers have said theirs."""
    model = engine.model
    logger.info("sampling of requests that do not say: %s", model.sampling)
    if model.chat is None:
        logger.warning("%s has no chat template: /v1/chat/completions refuses, /v1/completions works", model.name)
    logger.info("listening at %s", url)


async def serve_engine(
    engine: Engine,
    listeners: Sequence[trio.SocketListener],
    stop: trio.Event,
    entrance: Entrance,
    *,
    state: State | None = None,
    watch: LoopWatch | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an engine over HTTP, or HTTPS, until `stop` is set; started once requests are accepted."""
    tls, keys, policy, limits = entrance.tls, entrance.keys, entrance.browser_policy, entrance.limits
    doors: Sequence[Listener] = listeners
    if tls is not None:
        doors = [trio.SSLListener(listener, tls, https_compatible=True) for listener in listeners]
    usage = KeyUsage(trio.current_time)
    runs = None if state is None else state.runs
    metrics = Metrics(engine, entrance.metrics_compat, trio.current_time, runs)
    feed = Feed(engine, runs)
    app = create_app(
        engine,
        keys=keys,
        usage=usage,
        browser_policy=policy,
        limits=limits,
        state=state,
        watch=watch,
        metrics=metrics,
        feed=feed,
        wire=entrance.wire,
    )
    async with trio.open_nursery() as services:
        services.start_soon(feed.end_after, stop)
        if state is not None:
            services.start_soon(state.store.end_after, stop)
        with metrics.fed(), engine.observed_by(TokenMeter(usage)) if keys else nullcontext():
            await serve_connections(
                ASGIWrapper(app),
                hypercorn_config(),
                doors,
                limits=limits,
                stall_timeout=limits.stall_timeout,
                linger=LINGER_SECONDS,
                stop=stop,
                task_status=task_status,
            )
        services.cancel_scope.cancel()
