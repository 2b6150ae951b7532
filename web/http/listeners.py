"""Where the server listens, and with which certificate; nothing of the model is needed to know that it can."""

from __future__ import annotations

import errno
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from runtime.errors import CedeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path


class ListenError(CedeError):
    """The address cannot be listened on, or not with that certificate; the message says why."""


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


def url_of(listeners: Sequence[trio.SocketListener], scheme: str) -> str:
    """Where clients find the first of them."""
    host, port, *_ = listeners[0].socket.getsockname()
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
