"""The server from start to exit: what is open, in which order, and how it ends.

`run_server` reads as the order of lifetimes: listening sockets, device thread, engine, connections.  Each ends before
what it stands on, and every request ends before the engine does, because the connections live inside it.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import ssl
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config

from actors.engine import Engine, EngineConfig, open_engine
from actors.prefix_cache import CacheConfig, TierOptions, open_prefix_cache
from runtime.drafters import plan_drafter
from runtime.errors import CedeError
from runtime.executor import open_thread_executor
from runtime.loading import describe_model, load_model
from runtime.shards import fingerprint
from web import guard
from web.app import create_app
from web.descriptors import fit_descriptors
from web.limits import HANDSHAKE_TIMEOUT, KEEP_ALIVE, Limits
from web.origin import Allowed
from web.planned_faults import PlannedFaults

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence
    from pathlib import Path

    from runtime.faults import FaultPlan
    from runtime.loading import LoadOptions

logger = logging.getLogger("cede.web")

# How long a client may take over the last bytes of its response once everything else has ended.
LINGER_SECONDS = 3.0


class ListenError(CedeError):
    """The address cannot be listened on, or not with that certificate; the message says why."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What to serve, how and where.

    Attributes:
        load, engine, tiers, cache: see there; who drafts is `load`'s to say, and `engine` is told.
        model_name: as the API shows it.
        host, port: to listen on; port 0 picks a free one.
        certfile, keyfile: PEM, for TLS; the key may be in the certificate's file.  None for no TLS.
        keys: one of which a client has to have (`web.keys.read_keys`); empty to serve everybody.
        allowed: pages and names to serve beside those that need no leave.
        grace: seconds that running requests have at shutdown.
        stall_timeout: seconds after which a client that reads nothing is cut.
        hang_timeout: seconds without the end of a layer after which the device is lost; None for no limit.
        limits: what clients may take of the server.
        chaos: what is to go wrong; None for a server that is meant to work.
    """

    load: LoadOptions
    model_name: str
    engine: EngineConfig = field(default_factory=EngineConfig)
    tiers: TierOptions = field(default_factory=TierOptions)
    cache: CacheConfig = field(default_factory=CacheConfig)
    host: str = "127.0.0.1"
    port: int = 8000
    certfile: Path | None = None
    keyfile: Path | None = None
    keys: frozenset[bytes] = frozenset()
    allowed: Allowed = field(default_factory=Allowed)
    grace: float = 30.0
    stall_timeout: float = 30.0
    hang_timeout: float | None = 120.0
    limits: Limits = field(default_factory=Limits)
    chaos: FaultPlan | None = None


async def run_server(
    options: ServerOptions,
    *,
    progress: Callable[[int, int], None] | None = None,
    announce: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT, then wind down; returns once all has ended.

    Args:
        options: see there.
        progress: of the weights' loading, in bytes done and in all.
        announce: called once with the server's URL, when requests are accepted.

    Raises:
        CheckpointError: the model, or what is to draft for it, cannot be loaded, or its files change meanwhile.
        ListenError: the address cannot be listened on, or not with that certificate.
        KVFolderError: the disk tier's folder cannot be used.
    """
    load = options.load
    tls = None if options.certfile is None else tls_context(options.certfile, options.keyfile)
    described, model_config = describe_model(load, options.model_name)
    drafter = plan_drafter(load, model_config, described.tokenizer)
    identity = await trio.to_thread.run_sync(fingerprint, load.folder)
    faults = PlannedFaults(options.chaos)
    async with (
        open_listeners(options.host, options.port) as listeners,
        open_thread_executor(
            faults.model(partial(load_model, load, model_config, drafter, progress)),
            faults.drafter(drafter.load),
            hang_timeout=options.hang_timeout,
        ) as executor,
        open_prefix_cache(
            options.tiers,
            options.cache,
            load.folder,
            identity,
            executor.model.kv,
            quantization=load.quantize,
            open_blocks=faults.open_blocks,
        ) as cache,
        open_engine(
            faults.executor(executor),
            replace(described, context_length=executor.model.context),
            replace(options.engine, speculate=drafter.proposer),
            cache,
        ) as engine,
        faults.happen_to(engine),
        trio.open_nursery() as signals,
    ):
        stop = trio.Event()
        await signals.start(_stop_on_signal, engine, options.grace, stop)
        async with trio.open_nursery() as serving:
            serve = partial(
                serve_engine,
                engine,
                listeners,
                stop,
                stall_timeout=options.stall_timeout,
                tls=tls,
                keys=options.keys,
                allowed=options.allowed,
                limits=fit_descriptors(options.limits),
            )
            await serving.start(serve)
            announce(_url(listeners, "http" if tls is None else "https"))
        signals.cancel_scope.cancel()
    if executor.hangs:
        logger.error("the device thread has not come back, and the process ends without it")
        _exit(1)  # what runs at an ordinary exit might wait for it, or pull the device from under it


async def serve_engine(
    engine: Engine,
    listeners: Sequence[trio.SocketListener],
    stop: trio.Event,
    *,
    stall_timeout: float,
    tls: ssl.SSLContext | None = None,
    keys: Collection[bytes] = (),
    allowed: Allowed | None = None,
    limits: Limits | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an engine over HTTP, or HTTPS, until `stop` is set; started once requests are accepted."""
    limits = limits or Limits()
    entrances: Sequence[guard.Listener] = listeners
    if tls is not None:
        entrances = [trio.SSLListener(listener, tls, https_compatible=True) for listener in listeners]
    await guard.serve(
        ASGIWrapper(create_app(engine, keys=keys, allowed=allowed, limits=limits)),
        _hypercorn_config(),
        entrances,
        limits=limits,
        stall_timeout=stall_timeout,
        linger=LINGER_SECONDS,
        stop=stop,
        task_status=task_status,
    )


@asynccontextmanager
async def open_listeners(host: str, port: int) -> AsyncIterator[Sequence[trio.SocketListener]]:
    """Sockets that listen; taken before the model is loaded, so that a wrong address is known at once.

    A name such as `localhost` may have several addresses.  Each would be given a free port of its own, and clients are
    told of one, so with port 0 only the first address is listened on.
    """
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        why = "the port is in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise ListenError(f"cannot listen on {host} port {port}: {why}") from error
    try:
        while port == 0 and len(listeners) > 1:
            await listeners.pop().aclose()
        yield listeners
    finally:
        for listener in listeners:
            with trio.CancelScope(shield=True):
                await listener.aclose()


def tls_context(certfile: Path, keyfile: Path | None) -> ssl.SSLContext:
    """What a server shows its clients, and which protocols it offers them.  Raises ListenError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        context.load_cert_chain(certfile, keyfile)
    except OSError as error:
        key = "in the same file (--keyfile names another)" if keyfile is None else f"in {keyfile}"
        why = error.strerror or str(error)
        raise ListenError(f"{certfile}: no certificate for TLS with its key {key}: {why}") from error
    return context


async def _stop_on_signal(
    engine: Engine, grace: float, stop: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """On the first signal refuse new requests, let the running ones finish, then set `stop`; on the second, exit."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        first = await anext(signals)
        logger.warning("%s: finishing %d requests", signal.Signals(first).name, len(engine.requests()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_exit_on_signal, signals)
            await engine.drain(grace)
            stop.set()  # the connections end within their linger, and `run_server` then cancels this task


async def _exit_on_signal(signals: AsyncIterator[int]) -> None:
    """The second signal ends the process at once, whatever is open."""
    number = await anext(signals)
    _exit(128 + number)


def _exit(status: int) -> NoReturn:
    """End the process now, whatever its threads are at."""
    logging.shutdown()
    os._exit(status)


def _hypercorn_config() -> Config:
    config = Config()
    config.keep_alive_timeout = KEEP_ALIVE
    config.keep_alive_max_requests = sys.maxsize  # a request's number is no reason to end a connection
    config.ssl_handshake_timeout = HANDSHAKE_TIMEOUT
    config.include_server_header = False
    config.errorlog = logging.getLogger("cede.web")  # or it makes a handler of its own
    return config


def _url(listeners: Sequence[trio.SocketListener], scheme: str) -> str:
    host, port, *_ = listeners[0].socket.getsockname()
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
