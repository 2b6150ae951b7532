"""Two hundred hostile bodies beside two neighbours, on a real server; and that the bodies are what they claim to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import RequestError
from tests.live.fork_server import ForkedServer
from tests.live.hostile import FLAGS, harass
from tests.live.hostile_bodies import FITTING, draw_body, field_names, large_bodies
from tests.live.server import CHAT
from web.openai.chat.schema import ChatBody
from web.openai.completions.schema import CompletionBody
from web.openai.schemas import parse_body

if TYPE_CHECKING:
    from pathlib import Path

MANY = range(400)


def is_understood(number: int) -> bool:
    body = draw_body(number)
    try:
        parse_body(ChatBody if body.path == CHAT else CompletionBody, body.raw)
    except RequestError:
        return False
    return True


def test_a_seed_fixes_a_body() -> None:
    assert [draw_body(number) for number in range(20)] == [draw_body(number) for number in range(20)]


def test_some_are_understood_and_most_are_not() -> None:
    understood = sum(map(is_understood, MANY))
    assert 0.15 < understood / len(MANY) < 0.6, understood


def test_every_field_of_the_schemas_is_among_them() -> None:
    names = {*field_names(ChatBody), *field_names(CompletionBody)}
    assert names >= FITTING.keys()
    drawn = b"".join(draw_body(number).raw for number in MANY)
    assert [name for name in names if f'"{name}"'.encode() not in drawn] == []


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
