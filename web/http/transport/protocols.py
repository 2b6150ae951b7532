"""Which protocol a connection speaks: Hypercorn's HTTP/1.1 without upgrades, or HTTP/2 (`web.http.transport.http2`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h11
from hypercorn.events import RawData
from hypercorn.protocol.h11 import H2ProtocolAssumedError, H11Protocol

from web.http.transport.http2 import Http2Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hypercorn import Config
    from hypercorn.events import Event
    from hypercorn.trio.worker_context import WorkerContext
    from hypercorn.typing import AppWrapper, ConnectionState

    from web.http.transport.task_group import ConnectionTaskGroup
    from web.limits import Limits


class Http1Protocol(H11Protocol):
    """HTTP/1.1 without upgrades, which a server may ignore: no h2c, which RFC 9113 has dropped, and no web sockets."""

    async def _check_protocol(self, event: h11.Request) -> None:
        if (event.method, event.target, event.http_version) == (b"PRI", b"*", b"2.0"):
            rest, _ = self.connection.trailing_data
            raise H2ProtocolAssumedError(b"PRI * HTTP/2.0\r\n\r\n" + rest)

    async def _create_stream(self, request: h11.Request) -> None:
        headers = [(name, value) for name, value in request.headers if name != b"upgrade"]
        await super()._create_stream(
            h11.Request(
                method=request.method, target=request.target, headers=headers, http_version=request.http_version
            )
        )


class ProtocolWrapper:
    """The protocol of one connection, which changes where a client speaks HTTP/2 without being asked."""

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        requests: ConnectionTaskGroup,
        state: ConnectionState,
        ssl: bool,
        client: tuple[str, int] | None,
        server: tuple[str, int] | None,
        send: Callable[[Event], Awaitable[None]],
        *,
        alpn: str | None,
        limits: Limits,
        stall_timeout: float,
    ) -> None:
        self._arguments = (app, config, context, requests, state, ssl, client, server, send)
        self._limits = (limits, stall_timeout)
        self._current: Http1Protocol | Http2Protocol = (
            self._http2() if alpn == "h2" else Http1Protocol(*self._arguments)
        )

    def _http2(self) -> Http2Protocol:
        return Http2Protocol(*self._arguments, *self._limits)

    async def initiate(self) -> None:
        """Say what the protocol says first."""
        await self._current.initiate()

    async def handle(self, received: RawData) -> None:
        """Take received bytes."""
        try:
            await self._current.handle(received)
        except H2ProtocolAssumedError as assumed:
            data = assumed.data
        else:
            return
        self._current = self._http2()
        await self._current.initiate()
        await self._current.handle(RawData(data))
