"""Hostile bodies over the whole application and the simulated engine: no failure, and nothing is left."""

from __future__ import annotations

from trio.testing import MockClock

from tests.fakes.operations import OPERATIONS
from tests.hostile.application import Answers, open_application
from tests.hostile.bodies import draw_body, filled
from tests.hostile.drawn import ask_drawn
from tests.hostile.visits import draw_visit
from web.process.access.api_keys import KeyRing
from web.process.access.key_file import read_keys

BODIES = 150  # `python -m tests.hostile --application` sends more
VISITS = 40
EXAMPLES = 2  # of each operation and kind


async def test_hostile_bodies_are_answered_as_declared_and_leave_nothing(autojump_clock: MockClock) -> None:
    answers = Answers()
    async with open_application() as application:
        await answers.take(map(draw_body, range(BODIES)), application)
    assert answers.faults == [], answers


async def test_what_is_done_to_stored_responses_is_answered_as_declared(autojump_clock: MockClock) -> None:
    answers = Answers()
    async with open_application() as application:
        await answers.visit(map(draw_visit, range(VISITS)), application)
    assert answers.faults == [], answers
    assert {status for _, _, status in answers.counts} >= {200, 400, 404}


async def test_drawn_requests_are_answered_as_the_document_says(autojump_clock: MockClock) -> None:
    async with open_application() as application:
        outcome = await ask_drawn(application, EXAMPLES)
    assert outcome.faults == [], outcome
    assert outcome.unused() == set(), outcome


AUTHORIZATIONS = (
    "",
    "Bearer",
    "Bearer ",
    "bearer sk-2",
    "Bearer sk-1 sk-1",
    "Basic c2s6c2s=",
    "sk-1",
    "Bearer \xff",
    "x" * 9000,
)


async def test_a_key_that_is_none_is_a_401_on_every_route(autojump_clock: MockClock) -> None:
    async with open_application(keys=KeyRing(read_keys(["sk-1"], None))) as application:
        for operation in OPERATIONS:
            for value in AUTHORIZATIONS:
                for name in ("authorization", "x-api-key"):
                    if name == "x-api-key" and value == "sk-1":
                        continue
                    asked = filled(operation.path)
                    answer = await application.ask(operation.method.upper(), asked, b"{}", ((name, value),))
                    if not operation.open:
                        assert answer.status == 401, (operation, name, value)
