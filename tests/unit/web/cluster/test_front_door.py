"""Address where Dynamo's server listens."""

from __future__ import annotations

import ipaddress

from web.cluster.front_door import secret_loopback
from web.http.listeners import bound_sockets


def test_where_dynamos_server_listens_is_this_machine_and_cannot_be_guessed() -> None:
    drawn = {secret_loopback() for _ in range(100)}
    assert len(drawn) > 90
    assert all(ipaddress.ip_address(address).is_loopback for address in drawn)
    with bound_sockets(drawn.pop(), 0) as sockets:
        assert sockets[0].getsockname()[1] > 0
