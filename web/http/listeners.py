"""The sockets that the server listens on, its TLS certificate, and the settings of Hypercorn's parts.

None of them needs anything of the model.
"""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import sys
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from typing import TYPE_CHECKING

import trio
from hypercorn.config import Config

from runtime.common.log_text import MAX_LITERAL, shortened
from runtime.errors import CedeError
from web.process.limits import HANDSHAKE_TIMEOUT, KEEP_ALIVE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

BACKLOG = 0xFFFF  # connections that may wait to be accepted; the system's own bound is below that


class ListenError(CedeError):
    """The address cannot be listened on, or not with that certificate; the message says why."""


@contextmanager
def bound_sockets(host: str, port: int, flag: str = "--port") -> Iterator[list[socket.socket]]:
    """Have an address while the scope lasts, and accept nothing there yet: whoever connects is refused.

    So a server whose model takes minutes to load knows at once that it cannot be reached, and nobody waits for it in
    the meantime.  A name such as `localhost` may have several addresses.  With port 0 each would get a port of its own,
    and clients are told of one, so only the first address is taken.

    The system gives nobody else a port that a socket is bound to.  But who asks for just this one may listen on it
    first, since both sockets let their address be used again, as is needed after a restart.

    Args:
        host: a name or an address.
        port: 0 for a free one.
        flag: the option that says which.

    Raises:
        ListenError: the address cannot be had.
    """
    with ExitStack() as stack, _explained(host, port, flag):
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        for family, kind, protocol, _, address in dict.fromkeys(found):
            if sockets and port == 0:
                break
            bound = stack.enter_context(closing(socket.socket(family, kind, protocol)))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind(address)
            sockets.append(bound)
        owned = stack.pop_all()
    with owned:
        yield sockets


def listen(sockets: Sequence[socket.socket]) -> list[trio.SocketListener]:
    """Begin to accept connections on bound sockets, which stay with whoever has bound them.

    Raises:
        ListenError: somebody else listens there by now.
    """
    for bound in sockets:
        host, port, *_ = bound.getsockname()
        with _explained(host, port, "--port"):
            bound.listen(BACKLOG)
    return [trio.SocketListener(trio.socket.from_stdlib_socket(bound)) for bound in sockets]


@asynccontextmanager
async def open_listeners(host: str, port: int, flag: str = "--port") -> AsyncIterator[list[trio.SocketListener]]:
    """Listen while the scope lasts: `bound_sockets` and `listen` at once, for a server that has nothing to load.

    Raises:
        ListenError: the address cannot be listened on.
    """
    with bound_sockets(host, port, flag) as sockets:
        yield listen(sockets)


@contextmanager
def _explained(host: str, port: int, flag: str) -> Iterator[None]:
    """Say on one line what is the matter with an address, and what would help."""
    try:
        yield
    except (OSError, UnicodeError) as error:  # the latter is of a name that no machine can have
        why = {
            errno.EADDRINUSE: f"the port is in use; {flag} names another one, or 0 one that is free",
            errno.EACCES: f"the system does not allow it; {flag} names another port, such as one above 1023",
            errno.EADDRNOTAVAIL: "this machine has no such address (--host)",
        }.get(getattr(error, "errno", None) or 0, getattr(error, "strerror", None) or str(error))
        raise ListenError(f"cannot listen on {shortened(host, MAX_LITERAL)} port {port}: {why}") from error


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


def hypercorn_config() -> Config:
    """Make it."""
    config = Config()
    config.keep_alive_timeout = KEEP_ALIVE
    config.keep_alive_max_requests = sys.maxsize  # a request's number is no reason to end a connection
    config.ssl_handshake_timeout = HANDSHAKE_TIMEOUT
    config.include_server_header = False
    config.errorlog = logging.getLogger("cede.web")  # or it makes a handler of its own
    return config
