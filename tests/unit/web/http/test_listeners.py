"""Where a server listens, and what it says of that."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import trio

from web.http.listeners import ListenError, open_listeners


class TwoAddresses(trio.abc.HostnameResolver):
    """Every name is this machine's, twice, as `localhost` is on a machine with both kinds of addresses."""

    async def getaddrinfo(self, host: Any, port: Any, *_: int) -> Any:  # noqa: ANN401
        """Return the same address twice."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))] * 2

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:  # noqa: ANN401
        """Raise NotImplementedError: nobody asks for names."""
        raise NotImplementedError


async def test_a_free_port_is_one_port() -> None:
    trio.socket.set_custom_hostname_resolver(TwoAddresses())
    async with open_listeners("two.test", 0) as listeners:
        assert len({listener.socket.getsockname()[1] for listener in listeners}) == 1


async def test_a_port_that_is_taken_is_said_to_be() -> None:
    async with open_listeners("127.0.0.1", 0) as (listener,):
        port = listener.socket.getsockname()[1]
        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1 port {port}: the port is in use"):
            async with open_listeners("127.0.0.1", port):
                pass
