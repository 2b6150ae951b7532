"""A flooding client against a socket that reads, and one that ends it."""

from __future__ import annotations

import socket
import threading

import pytest

from bench.floods.client import flood
from bench.floods.kinds import FLOODS, Flood
from tests.live.server import wait_for


def served(ends: bool) -> tuple[int, list[bytes], socket.socket]:
    """A listener that reads some bytes of each connection, and perhaps ends it: its port, and what came."""
    listener, came = socket.create_server(("127.0.0.1", 0)), list[bytes]()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                while data := connection.recv(2**16):
                    came.append(data)
                    if ends:
                        break

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1], came, listener


def test_it_sends_its_opening_and_its_pieces_and_stops_in_time() -> None:
    port, came, listener = served(ends=False)
    with listener:
        done = flood(Flood(b"opening", lambda: iter([b"one", b"two"])), port, seconds=0.2)
        wait_for(lambda: b"".join(came) == b"openingonetwo", "what was sent to come")
    assert (done.connections, done.sent, done.cut_off) == (1, 13, 0)


def test_who_is_cut_off_begins_again() -> None:
    port, _, listener = served(ends=True)
    with listener:
        for seconds in (0.2, 2, 20):  # a slow machine needs longer to come back once
            done = flood(FLOODS["ping"], port, seconds)
            assert done.cut_off >= done.connections - 1
            if done.connections > 1:
                return
    pytest.fail("it has not come back")
