"""Assumptions of the counts, beside the simulated clusters with real engines."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.sim.cluster.discovery import Added
from tests.sim.cluster.growth.model import Load, grow
from tests.sim.cluster.network import Connection
from tests.sim.cluster.play import play
from tests.sim.cluster.router import Stored
from tests.sim.cluster.scenario import Visit, draw
from tests.sim.cluster.worker import Chunk

WORKERS = DOORS = 2
PROMPT, OUTPUT = 128, 10


def test_tokens_and_blocks_are_those_that_real_engines_send(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = grow(WORKERS, DOORS, Load(prompt=PROMPT, output=OUTPUT)).messages
    told = Counter[str]()
    tell_near = Connection.tell_near

    def count(connection: Connection, message: object) -> None:
        match message:
            case Chunk(fields):
                told["tokens"] += len(fields.get("token_ids") or ())
            case Stored():
                told["blocks"] += len(message.names)
            case Added() if connection.near.name.startswith("door"):
                told["workers"] += 1
        tell_near(connection, message)

    monkeypatch.setattr(Connection, "tell_near", count)
    visits = tuple(Visit(1.0, door, tuple(range(door, PROMPT + door)), OUTPUT) for door in range(DOORS))
    quiet = replace(draw(1), workers=WORKERS, doors=DOORS, slots=2, queue=8, visits=visits)
    play(replace(quiet, troubles=(), partitions=(), lost_devices=()))

    assert told["tokens"] == counted["tokens answered"]
    assert told["blocks"] == counted["blocks told of"]
    assert told["workers"] == WORKERS * DOORS
