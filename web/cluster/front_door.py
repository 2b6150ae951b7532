"""The front door: Dynamo's HTTP server with its router, in a process of its own, and all of it asyncio's."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from runtime.errors import CedeError
from runtime.kv.blocks import BLOCK_TOKENS
from web.cluster.settings import tell_dynamo

if TYPE_CHECKING:
    from collections.abc import Callable

    from web.options import Cluster

MIGRATIONS = 3
"""How often a request may go on at another worker."""
SESSION_SECONDS = 600
"""After which a session in which nothing is asked is sent anywhere again."""
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


def run_front_door(cluster: Cluster, door: Door, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        cluster: whose workers.
        door: where.
        announce: called with the URL once requests are accepted and a worker is there to serve them.

    Raises:
        FrontDoorError: the address cannot be listened on, or the server ended by itself.
    """
    tell_dynamo(cluster, os.environ)
    door = Door(door.host, free_port(door))
    asyncio.run(_serve(cluster, door, announce))


def free_port(door: Door) -> int:
    """A port that can be listened on now; Dynamo does not say which one it got."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(door.host, door.port, type=socket.SOCK_STREAM)[0]
        with closing(socket.socket(family, kind, protocol)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            port: int = listener.getsockname()[1]
    except OSError as error:
        raise FrontDoorError(f"cannot listen on {door.host}, port {door.port}: {error}") from None
    return port


async def _serve(cluster: Cluster, door: Door, announce: Callable[[str], None]) -> None:
    from dynamo.llm import EngineType, EntrypointArgs, KvRouterConfig, RouterConfig, RouterMode, make_engine, run_input
    from dynamo.runtime import DistributedRuntime

    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    runtime = DistributedRuntime(loop, cluster.discovery, "tcp", event_plane="zmq")
    arguments = EntrypointArgs(
        EngineType.Dynamic,
        http_host=door.host,
        http_port=door.port,
        kv_cache_block_size=BLOCK_TOKENS,
        router_config=RouterConfig(
            RouterMode.KV,
            KvRouterConfig(use_kv_events=True),
            session_affinity_ttl_secs=SESSION_SECONDS,
            session_affinity_mode="soft",
        ),
        migration_limit=MIGRATIONS,
        namespace=cluster.namespace,
    )
    engine = await make_engine(runtime, arguments)
    serving = asyncio.ensure_future(run_input(runtime, "http", engine))
    ready = asyncio.ensure_future(_wait_ready(door, announce))
    told = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({serving, told}, return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    told.cancel()
    if not stopping.is_set():
        raise FrontDoorError(f"the front door ended by itself: {_ending(serving)}")
    runtime.shutdown()
    await asyncio.wait({serving})


def _ending(serving: asyncio.Future[Any]) -> str:
    return str(serving.exception() or "without an error")


async def _wait_ready(door: Door, announce: Callable[[str], None]) -> None:
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
    announce(url)
