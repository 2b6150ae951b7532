"""The contexts of a server and of a connection: two frozen structures that are passed on whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hypercorn import Config
    from hypercorn.events import Event
    from hypercorn.trio.worker_context import WorkerContext
    from hypercorn.typing import AppWrapper, ConnectionState, LifespanState

    from web.http.transport.loop_share import LoopShare, Turns
    from web.http.transport.task_group import ConnectionTaskGroup
    from web.process.limits import Limits


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The things that all connections of a server share.

    Attributes:
        app: the ASGI application, in Hypercorn's wrapper.
        config: Hypercorn's.  Its timeouts, the settings of the protocols and the logs are used.
        worker: Hypercorn's.  Its event `terminated` is set when idle connections are to close.
        state: the lifespan state of the application.  Each connection has a copy.
        limits: what clients may take of the server.
        stall_timeout: seconds in which a client has to take its share (`Limits.least_read`) of what is being sent to
            it.
        share: gives the connections their turns.
    """

    app: AppWrapper
    config: Config
    worker: WorkerContext
    state: LifespanState
    limits: Limits
    stall_timeout: float
    share: LoopShare


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """The things that the protocol of one connection needs.

    Attributes:
        server: the context of all connections.
        tasks: starts the requests.
        turns: in which what was received is handled.
        state: the connection's copy of the lifespan state.
        tls: whether the connection is encrypted.
        client: the client's address and port; None for a socket that has none.
        local: the address and port that the client connected to; None for a socket that has none.
        send: takes the protocol's events: bytes to write, idleness, the end of the connection.
    """

    server: ServerContext
    tasks: ConnectionTaskGroup
    turns: Turns
    state: ConnectionState
    tls: bool
    client: tuple[str, int] | None
    local: tuple[str, int] | None
    send: Callable[[Event], Awaitable[None]]
