"""Two hundred hostile bodies beside two neighbours, on a real server; and that the bodies are what they claim to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from tests.live.fork_server import ForkedServer
from tests.live.hostile import FLAGS, harass
from tests.live.hostile_bodies import FITTING, OPERATIONS, SCHEMAS, draw_body, field_names, large_bodies
from tests.live.hostile_requests import draw_request

if TYPE_CHECKING:
    from pathlib import Path

MANY = range(1000)


def is_understood(number: int) -> bool:
    body = draw_body(number)
    try:
        SCHEMAS[body.path].model_validate_json(body.raw)
    except ValidationError:
        return False
    return True


def test_a_seed_fixes_a_body() -> None:
    assert [draw_body(number) for number in range(20)] == [draw_body(number) for number in range(20)]


def test_some_are_understood_and_most_are_not() -> None:
    understood = sum(map(is_understood, MANY))
    assert 0.1 < understood / len(MANY) < 0.6, understood


def test_every_field_of_the_schemas_is_among_them() -> None:
    names = {name for schema in SCHEMAS.values() for name in field_names(schema)}
    assert names >= FITTING.keys()
    drawn = b"".join(draw_body(number).raw for number in MANY)
    assert [name for name in names if f'"{name}"'.encode() not in drawn] == []


def test_a_seed_fixes_a_request_and_every_route_gets_some() -> None:
    drawn = [draw_request(number) for number in MANY]
    assert drawn == [draw_request(number) for number in MANY]
    sent = b"".join(request.raw for request in drawn)
    routes = [operation.path.partition("{")[0].encode() for operation in OPERATIONS]
    assert [route for route in routes if route not in sent] == []


def test_large_ones_are_large() -> None:
    for body in large_bodies(50_000):
        if not body.what.startswith("a large"):
            assert 30_000 < len(body.raw) < 140_000, body.what


def test_two_hundred_hostile_bodies_harm_nobody(tmp_path: Path) -> None:
    server = ForkedServer(tmp_path, *FLAGS)
    try:
        report = harass(server, bodies=200, seed=0)
        report.check()
    finally:
        server.end()
    assert server.wait_exit() == 0
