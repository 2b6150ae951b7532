"""Floods are well-formed as far as they are meant to be, and begin what they say."""

from __future__ import annotations

from itertools import islice

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import pytest

from bench.floods.kinds import FLOODS

ENDED_BY_H2 = {  # whose bound on open streams is one of them
    *("continuation", "prefaces", "header bomb, too large", "made to reset", "refused, CONNECT"),
    *("requests without an end",),
}


@pytest.mark.parametrize("kind", [kind for kind, flood in FLOODS.items() if flood.opening.startswith(b"PRI")])
def test_a_flood_of_http2_is_what_a_parser_without_bounds_takes(kind: str) -> None:
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
    server.initiate_connection()
    events = server.receive_data(FLOODS[kind].opening)
    piece = next(FLOODS[kind].pieces())[:3000]
    try:
        events += server.receive_data(piece)
    except h2.exceptions.ProtocolError:
        assert kind in ENDED_BY_H2
    begun = [dict(event.headers) for event in events if isinstance(event, h2.events.RequestReceived)]
    assert all(headers[b":authority"] == b"127.0.0.1" for headers in begun)


@pytest.mark.parametrize("kind", FLOODS)
def test_its_pieces_are_made_beforehand_or_come_to_an_end(kind: str) -> None:
    first, again = (list(islice(FLOODS[kind].pieces(), 2)) for _ in range(2))
    assert first == again
    assert sum(map(len, first)) < 2**25
