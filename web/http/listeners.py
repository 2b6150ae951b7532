"""The sockets that the server listens on, and its TLS certificate.  Neither needs anything of the model."""

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
    """Open listening sockets and close them at the end.

    They are opened before the model is loaded, so that a wrong address is known at once.  A name such as `localhost`
    may have several addresses.  With port 0 each would get a port of its own, and clients are told of one, so only the
    first address is listened on.

    Args:
        host: a name or an address.
        port: 0 for a free one.

    Raises:
        ListenError: the address cannot be listened on.
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
    """Make the TLS context of a server, which offers HTTP/2 and HTTP/1.1.

    Args:
        certfile: the certificate chain, in PEM.
        keyfile: its private key; None if it is in the same file.

    Raises:
        ListenError: a file cannot be read, or holds no such thing.
    """
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
    """Return the URL at which clients find the first of the listeners."""
    host, port, *_ = listeners[0].socket.getsockname()
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
