"""One flooding client: `python -m bench.floods.client KIND PORT START SECONDS`, which says in JSON what it did.

It sends to loopback alone, on one connection at a time, reads and drops what comes, and begins again where it is cut
off: on `CONNECTIONS` connections at most, and until its time is over.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass

from bench.floods.kinds import FLOODS, Flood

CONNECTIONS = 5000
RECEIVE = 2**18


@dataclass(slots=True)
class Sent:
    """Counts of what a client did: connections, bytes each way, and how many of its connections the server ended."""

    connections: int = 0
    sent: int = 0
    received: int = 0
    cut_off: int = 0


def flood(kind: Flood, port: int, seconds: float) -> Sent:
    """Flood a server for so long."""
    done, deadline = Sent(), time.monotonic() + seconds
    while time.monotonic() < deadline and done.connections < CONNECTIONS:
        done.connections += 1
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
            connection.setblocking(False)
            try:
                _send_on(connection, kind, deadline, done)
            except OSError:
                done.cut_off += 1
    return done


def _send_on(connection: socket.socket, kind: Flood, deadline: float, done: Sent) -> None:
    """Send on one connection until the time is over, or raise OSError where the server ends it."""
    pieces = kind.pieces()
    unsent = memoryview(kind.opening or next(pieces, b""))
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while (left := deadline - time.monotonic()) > 0:
            if not unsent:
                unsent = memoryview(next(pieces, b""))
                if not unsent:
                    selector.modify(connection, selectors.EVENT_READ)
            for _, ready in selector.select(left):
                if ready & selectors.EVENT_READ:
                    data = connection.recv(RECEIVE)
                    if not data:
                        raise ConnectionError
                    done.received += len(data)
                if ready & selectors.EVENT_WRITE and unsent:
                    count = connection.send(unsent)
                    done.sent += count
                    unsent = unsent[count:]


if __name__ == "__main__":
    time.sleep(max(0.0, float(sys.argv[3]) - time.monotonic()))  # processes begin together
    print(json.dumps(asdict(flood(FLOODS[sys.argv[1]], int(sys.argv[2]), float(sys.argv[4])))))
