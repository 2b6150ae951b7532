"""The front door: Dynamo's HTTP server with its router, and the control address beside it, in one process."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import trio
from hypercorn.app_wrappers import ASGIWrapper

from runtime.errors import CedeError
from runtime.kv.blocks import BLOCK_TOKENS
from web.cluster.control.routes import control_app
from web.cluster.guest import from_asyncio, run_as_guest
from web.cluster.peers import Peers
from web.cluster.settings import tell_dynamo
from web.http.hypercorn_config import hypercorn_config
from web.http.listeners import bound_sockets, open_listeners, url_of
from web.http.transport.serve import serve_connections
from web.limits import Limits
from web.process.signals import SIGNALS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from web.http.asgi import ScopedApp
    from web.options import Cluster

MIGRATIONS = 12
"""How often a request may go on at another worker.  Each vain attempt at one that is dead counts, too."""
SESSION_SECONDS = 600
"""After which a session in which nothing is asked is sent anywhere again."""
LINGER_SECONDS = 1.0  # for answers of the control address, at the end
ASK_AGAIN = 0.05  # seconds; Dynamo tells nobody when its server is ready


class FrontDoorError(CedeError):
    """The front door cannot be opened."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where the front door is.

    Attributes:
        host: an address.
        port: 0 for one that is free.
    """

    host: str
    port: int


def run_front_door(cluster: Cluster, door: Door, announce: Callable[[str, str], None]) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        cluster: whose workers.
        door: where.
        announce: called with the URL, and with that of the control address, once requests are accepted and a worker is
            there to serve them.

    Raises:
        CedeError: an address cannot be listened on, or the server ended by itself.
    """
    tell_dynamo(cluster, os.environ)
    with bound_sockets(door.host, door.port) as (first, *_):  # Dynamo's server does not say which port it got
        run_as_guest(partial(_serve, cluster, Door(door.host, first.getsockname()[1]), announce))


async def _serve(cluster: Cluster, door: Door, announce: Callable[[str, str], None]) -> None:
    """Dynamo's side is asyncio's, the control address Trio's."""
    from dynamo.runtime import DistributedRuntime

    with trio.open_signal_receiver(*SIGNALS) as signals:
        async with (
            open_listeners(door.host, cluster.control_port, "--control-port") as listeners,
            trio.open_nursery() as services,
        ):
            runtime = DistributedRuntime(asyncio.get_running_loop(), cluster.discovery, "tcp", event_plane="zmq")
            stop = trio.Event()
            app = control_app(await from_asyncio(Peers.open(runtime, cluster.namespace)), stop)
            await services.start(partial(_serve_control, app, listeners, stop))
            serving = asyncio.ensure_future(_run_door(runtime, cluster, door))
            control = url_of(listeners, "http")
            by_itself = await _wait_end(serving, signals, partial(_wait_ready, door, control, announce))
            stop.set()
            runtime.shutdown()
            await from_asyncio(asyncio.wait({serving}))
    if by_itself:
        raise FrontDoorError(f"the front door ended by itself: {serving.exception() or 'without an error'}")


async def _run_door(runtime: Any, cluster: Cluster, door: Door) -> None:  # noqa: ANN401  # Dynamo's
    """Dynamo's server, to its end."""
    from dynamo.llm import EngineType, EntrypointArgs, KvRouterConfig, RouterConfig, RouterMode, make_engine, run_input

    arguments = EntrypointArgs(
        EngineType.Dynamic,
        http_host=door.host,
        http_port=door.port,
        kv_cache_block_size=BLOCK_TOKENS,
        router_config=RouterConfig(
            {"kv": RouterMode.KV, "round-robin": RouterMode.RoundRobin}[cluster.router],
            KvRouterConfig(use_kv_events=True),
            session_affinity_ttl_secs=SESSION_SECONDS,
            session_affinity_mode="soft",
        ),
        migration_limit=MIGRATIONS,
        namespace=cluster.namespace,
    )
    await run_input(runtime, "http", await make_engine(runtime, arguments))


async def _wait_end(
    serving: asyncio.Future[None], signals: AsyncIterator[int], ready: Callable[[], Awaitable[None]]
) -> bool:
    """Wait for a signal, or for the server's end; whether it ended by itself.  Meanwhile its readiness is told."""
    async with trio.open_nursery() as waiting:
        serving.add_done_callback(lambda _: waiting.cancel_scope.cancel())
        waiting.start_soon(from_asyncio, ready())
        await anext(signals)
        waiting.cancel_scope.cancel()
    return serving.done()


async def _serve_control(
    app: ScopedApp,
    listeners: Sequence[trio.SocketListener],
    stop: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    limits = Limits()
    await serve_connections(
        ASGIWrapper(app),
        hypercorn_config(),
        listeners,
        limits=limits,
        stall_timeout=limits.stall_timeout,
        linger=LINGER_SECONDS,
        stop=stop,
        task_status=task_status,
    )


async def _wait_ready(door: Door, control: str, announce: Callable[[str, str], None]) -> None:
    """Ask for the list of models until one is there."""
    host = f"[{door.host}]" if ":" in door.host else door.host
    url = f"http://{host}:{door.port}"
    async with httpx.AsyncClient(timeout=5, trust_env=False) as client:
        while True:
            try:
                answer = await client.get(f"{url}/v1/models")
                if answer.json()["data"]:
                    break
            except (httpx.TransportError, ValueError, KeyError):
                pass  # it does not listen yet
            await asyncio.sleep(ASK_AGAIN)
    announce(url, control)
