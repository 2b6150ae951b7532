"""Which port the front door takes."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from web.cluster.front_door import Door, FrontDoorError, free_port


def test_a_port_that_is_taken_is_refused() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(FrontDoorError, match=f"port {port}"):
            free_port(Door("127.0.0.1", port))


def test_port_0_is_a_free_one_and_any_other_is_itself() -> None:
    port = free_port(Door("127.0.0.1", 0))
    assert port > 0
    assert free_port(Door("127.0.0.1", port)) == port
