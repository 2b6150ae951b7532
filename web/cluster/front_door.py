"""The front door: Dynamo's HTTP server with its router, behind a passage of ours, and the control address beside it."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import trio
from hypercorn.app_wrappers import ASGIWrapper

from runtime.errors import CedeError
from runtime.kv.blocks import BLOCK_TOKENS
from web.cluster.control.routes import control_app
from web.cluster.door.passage import ControlPlace, Passage
from web.cluster.guest import from_asyncio, run_as_guest
from web.cluster.peers import Peers
from web.cluster.settings import tell_dynamo
from web.http.browser_policy import BrowserPolicy
from web.http.listeners import bound_sockets, hypercorn_config, open_listeners, url_of
from web.http.transport.serve import serve_connections
from web.process.descriptors import fit_descriptors
from web.process.limits import Limits
from web.process.signals import SIGNALS, exit_now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from web.http.asgi import ScopedApp
    from web.process.options import Cluster

logger = logging.getLogger("cede.web")

MIGRATIONS = 12
"""How often a request may go on at another worker.  Each vain attempt at one that is dead counts, too."""
SESSION_SECONDS = 600
"""After which a session in which nothing is asked is sent anywhere again."""
LINGER_SECONDS = 1.0  # for the last bytes of answers, at the end
ENDING_SECONDS = 1.0  # in which Dynamo's server has to end when nobody is connected to it any more
FILES = 4  # of a connection: the client's, one to Dynamo's server and that one's end, one at the control address
ASK_AGAIN = 0.05  # seconds; Dynamo tells nobody when its server is ready


class FrontDoorError(CedeError):
    """The front door cannot be opened."""


@dataclass(frozen=True, slots=True)
class Door:
    """Address of a front door.

    Attributes:
        host: an address.
        port: 0 for one that is free.
    """

    host: str
    port: int

    @property
    def url(self) -> str:
        """The same, for clients."""
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class DoorRules:
    """Whom a front door serves, and for how long.

    Attributes:
        policy: what web pages may ask, at the control address, too.
        limits: what clients may take.
        grace: seconds that requests have when it is to end.
    """

    policy: BrowserPolicy = field(default_factory=BrowserPolicy)
    limits: Limits = field(default_factory=Limits)
    grace: float = 0.0


def run_front_door(cluster: Cluster, door: Door, rules: DoorRules, announce: Callable[[str, str], None]) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        cluster: whose workers.
        door: where.
        rules: for whom.
        announce: called with the URL, and with that of the control address, once requests are accepted and a worker is
            there to serve them.

    Raises:
        CedeError: an address cannot be listened on, or the server ended by itself.
    """
    tell_dynamo(cluster, os.environ)
    host = secret_loopback()
    with bound_sockets(host, 0) as (first, *_):  # Dynamo's server does not say which port it got
        run_as_guest(partial(_serve, cluster, door, Door(host, first.getsockname()[1]), rules, announce))


def secret_loopback() -> str:
    """Draw an address of this machine that nobody can guess, for a server which this process alone is to ask.

    Dynamo's asks nobody who he is, and a web page may have a browser ask whatever listens on this machine, if it knows
    where.  All of 127.0.0.0/8 is this machine; with the port these are some 38 bits.
    """
    return f"127.{1 + secrets.randbelow(254)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"


async def _serve(
    cluster: Cluster, door: Door, inner: Door, rules: DoorRules, announce: Callable[[str, str], None]
) -> None:
    """Dynamo's side is asyncio's, the passage and the control address Trio's."""
    from dynamo.runtime import DistributedRuntime

    limits = fit_descriptors(rules.limits, FILES)
    with trio.open_signal_receiver(*SIGNALS) as signals:
        async with (
            open_listeners(door.host, door.port) as doors,
            open_listeners(door.host, cluster.control_port, "--control-port") as controls,
            trio.open_nursery() as ending,
        ):
            runtime = DistributedRuntime(asyncio.get_running_loop(), cluster.discovery, "tcp", event_plane="zmq")
            stop = trio.Event()
            control = control_app(await _open_peers(runtime, cluster, signals), stop, rules.policy)
            place = ControlPlace(control.url_map, controls[0].socket.getsockname()[1])
            passage = Passage((inner.host, inner.port), limits, rules.policy, place)
            async with trio.open_nursery() as services:
                await services.start(partial(_serve_app, control, controls, Limits(), stop))
                await services.start(partial(_serve_app, passage.app, doors, limits, stop))
                serving = asyncio.ensure_future(_run_door(runtime, cluster, inner))
                urls = url_of(doors, "http"), url_of(controls, "http")
                by_itself = await _wait_end(serving, signals, partial(_wait_ready, inner, partial(announce, *urls)))
                ending.start_soon(_exit_on_signal, signals)
                await passage.drain(0 if by_itself else rules.grace)
                stop.set()
            runtime.shutdown()
            await _see_end(serving)
            ending.cancel_scope.cancel()
    if by_itself:
        raise FrontDoorError(f"the front door ended by itself: {serving.exception() or 'without an error'}")


async def _open_peers(runtime: Any, cluster: Cluster, signals: AsyncIterator[int]) -> Peers:  # noqa: ANN401  # Dynamo's
    """Find the workers; discovery may not answer, and a signal then ends the process."""
    async with trio.open_nursery() as starting:
        starting.start_soon(_exit_on_signal, signals, 0)
        peers = await from_asyncio(Peers.open(runtime, cluster.namespace))
        starting.cancel_scope.cancel()
    return peers


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


async def _see_end(serving: asyncio.Future[None]) -> None:
    """Wait for the end of Dynamo's server, for a time; then end the process without it, and say so."""
    with trio.move_on_after(ENDING_SECONDS):
        await from_asyncio(asyncio.wait({serving}))
    if not serving.done():
        logger.error("Dynamo's server has not ended within %g s; the process ends without it", ENDING_SECONDS)
        exit_now(1)


async def _exit_on_signal(signals: AsyncIterator[int], status: int | None = None) -> None:
    """A second signal ends the process at once, whatever is open; so does the first before anything is served."""
    number = await anext(signals)
    exit_now(128 + number if status is None else status)


async def _serve_app(
    app: ScopedApp,
    listeners: Sequence[trio.SocketListener],
    limits: Limits,
    stop: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
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


async def _wait_ready(inner: Door, announce: Callable[[], None]) -> None:
    """Ask for the list of models until one is there."""
    async with httpx.AsyncClient(timeout=5, trust_env=False) as client:
        while True:
            try:
                answer = await client.get(f"{inner.url}/v1/models")
                if answer.json()["data"]:
                    break
            except (httpx.TransportError, ValueError, KeyError):
                pass  # it does not listen yet
            await asyncio.sleep(ASK_AGAIN)
    announce()
