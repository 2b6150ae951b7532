"""Listeners: a server has its address before it accepts anything, and says what is the matter with one."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing
from typing import Any

import pytest
import trio

from web.http.listeners import ListenError, bound_sockets, listen, open_listeners

LOOPBACK = "127.0.0.1"


def two_addresses(host: Any, port: Any, **_: int) -> Any:  # noqa: ANN401
    """Every name is this machine's, in two ways, as `localhost` is on a machine with both kinds of addresses."""
    return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port)) for address in (LOOPBACK, "127.0.0.2")]


def port_of(bound: socket.socket) -> int:
    port: int = bound.getsockname()[1]
    return port


def test_a_free_port_is_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
    with bound_sockets("two.test", 0) as sockets:
        assert len(sockets) == 1


def test_a_port_that_is_named_is_had_at_every_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with bound_sockets(LOOPBACK, 0) as (free,):
        port = port_of(free)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **other: two_addresses(*args, **other) * 2)
    with bound_sockets("two.test", port) as sockets:
        assert [bound.getsockname() for bound in sockets] == [(LOOPBACK, port), ("127.0.0.2", port)]


async def test_who_connects_before_it_listens_is_refused_and_then_served() -> None:
    with bound_sockets(LOOPBACK, 0) as sockets:
        with pytest.raises(OSError, match="all attempts to connect"):
            await trio.open_tcp_stream(LOOPBACK, port_of(sockets[0]))
        (listener,) = listen(sockets)
        async with (
            await trio.open_tcp_stream(LOOPBACK, port_of(sockets[0])) as client,
            await listener.accept() as server,
        ):
            await client.send_all(b"hello")
            assert await server.receive_some() == b"hello"


async def test_a_port_that_is_taken_is_said_to_be_with_a_way_out() -> None:
    async with open_listeners(LOOPBACK, 0) as (listener,):
        port = listener.socket.getsockname()[1]
        why = f"127.0.0.1 port {port}: the port is in use; --port names another one, or 0 one that is free"
        with pytest.raises(ListenError, match=why), bound_sockets(LOOPBACK, port):
            pass
        with pytest.raises(ListenError, match="--control-port names another"):
            async with open_listeners(LOOPBACK, port, "--control-port"):
                pass


def test_of_two_that_have_a_port_the_first_to_listen_gets_it() -> None:
    with bound_sockets(LOOPBACK, 0) as one, bound_sockets(LOOPBACK, port_of(one[0])) as two:
        one[0].listen()
        with pytest.raises(ListenError, match="the port is in use"):
            listen(two)


def test_port_0_is_a_free_one_and_any_other_is_itself() -> None:
    with bound_sockets(LOOPBACK, 0) as (bound,):
        port = port_of(bound)
        assert port > 0
    with bound_sockets(LOOPBACK, port) as (again,):
        assert port_of(again) == port


def test_a_port_is_kept_for_who_listens_on_it_and_given_to_nobody_else() -> None:
    """Dynamo's server, which a front door has it for, does not say which port it got."""
    with bound_sockets(LOOPBACK, 0) as (bound,), ExitStack() as stack:
        port = port_of(bound)
        others = [stack.enter_context(closing(socket.create_server((LOOPBACK, 0)))) for _ in range(200)]
        assert port not in {port_of(other) for other in others}
        clients = [stack.enter_context(closing(socket.create_connection(others[0].getsockname()))) for _ in range(20)]
        assert port not in {port_of(client) for client in clients}
        listener = stack.enter_context(closing(socket.create_server((LOOPBACK, port))))
        client = stack.enter_context(closing(socket.create_connection((LOOPBACK, port))))
        served, address = listener.accept()
        served.close()
        assert address == client.getsockname()


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("192.0.2.1", "this machine has no such address \\(--host\\)"),
        ("nowhere.invalid", "cannot listen on nowhere.invalid port 0: "),
        ("x" * 100_000, r"cannot listen on x+\.\.\.x+ port 0: "),
        ("ä" * 300, "cannot listen on ä"),
        ("a\0b", "cannot listen on "),
    ],
    ids=lambda text: text[:9],
)
def test_an_address_that_is_none_is_told_on_one_short_line(host: str, why: str) -> None:
    with pytest.raises(ListenError, match=why) as refused, bound_sockets(host, 0):
        pass
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)
