"""Which port the front door takes, and that nobody else gets it before it listens."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import ExitStack, closing

import pytest

from web.cluster.front_door import Door, FrontDoorError, reserved_port, secret_loopback

LOOPBACK = "127.0.0.1"


def test_a_port_that_is_taken_is_refused() -> None:
    with closing(socket.create_server((LOOPBACK, 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(FrontDoorError, match=f"port {port}"), reserved_port(Door(LOOPBACK, port)):
            pass


def test_port_0_is_a_free_one_and_any_other_is_itself() -> None:
    with reserved_port(Door(LOOPBACK, 0)) as port:
        assert port > 0
    with reserved_port(Door(LOOPBACK, port)) as again:
        assert again == port


def test_a_port_is_kept_for_who_listens_on_it_and_given_to_nobody_else() -> None:
    with reserved_port(Door(LOOPBACK, 0)) as port, ExitStack() as stack:
        others = [stack.enter_context(closing(socket.create_server((LOOPBACK, 0)))) for _ in range(200)]
        assert port not in {other.getsockname()[1] for other in others}
        clients = [stack.enter_context(closing(socket.create_connection(others[0].getsockname()))) for _ in range(20)]
        assert port not in {client.getsockname()[1] for client in clients}
        listener = stack.enter_context(closing(socket.create_server((LOOPBACK, port))))
        client = stack.enter_context(closing(socket.create_connection((LOOPBACK, port))))
        served, address = listener.accept()
        served.close()
        assert address == client.getsockname()


def test_where_dynamos_server_listens_is_this_machine_and_cannot_be_guessed() -> None:
    drawn = {secret_loopback() for _ in range(100)}
    assert len(drawn) > 90
    assert all(ipaddress.ip_address(address).is_loopback for address in drawn)
    with reserved_port(Door(drawn.pop(), 0)) as port:
        assert port > 0
