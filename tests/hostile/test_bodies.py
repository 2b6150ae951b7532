"""What is drawn is what it claims to be, and the same each time."""

from __future__ import annotations

from collections import Counter

from pydantic import ValidationError
from pydantic_core import from_json

from tests.fakes.operations import OPERATIONS
from tests.hostile.bodies import FITTINGS, KINDS, WITH_BODY, HostileBody, draw_body, swapped
from tests.hostile.fitting import TELLING
from tests.hostile.large import large_bodies
from tests.hostile.requests import draw_request
from tests.hostile.values import SPOILERS, raw, written
from tests.hostile.visits import BARE, MAKES, OF_ONE, draw_visit

MANY = range(1000)
SIMPLE: tuple[object, ...] = (None, True, 0, "x", [], {})


def is_json(body: HostileBody) -> bool:
    try:
        from_json(body.raw)
    except ValueError:
        return False
    return True


def is_understood(body: HostileBody) -> bool:
    assert body.operation.body is not None
    try:
        body.operation.body.model_validate_json(body.raw)
    except ValidationError:
        return False
    return True


def test_a_number_fixes_a_request() -> None:
    for draw in (draw_body, draw_request, draw_visit):
        assert [draw(number) for number in range(50)] == [draw(number) for number in range(50)]
        assert draw(1) != draw(2)


def test_most_bodies_come_as_far_as_their_fields_and_half_of_those_are_understood() -> None:
    drawn = [draw_body(number) for number in MANY]
    assert 0.8 < sum(map(is_json, drawn)) / len(drawn) < 0.95
    assert 0.3 < sum(map(is_understood, drawn)) / len(drawn) < 0.6


def test_what_is_in_order_is_mostly_understood_and_what_is_spoilt_is_no_json() -> None:
    drawn = [draw_body(number) for number in MANY]
    understood = Counter(body.kind for body in drawn if is_understood(body))
    kinds = Counter(body.kind for body in drawn)
    assert kinds.keys() == KINDS.keys()
    assert understood["in order"] > 0.8 * kinds["in order"]
    assert understood["wrong"] < 0.4 * kinds["wrong"]
    assert understood["spoilt"] < 0.1 * kinds["spoilt"]


def test_every_declared_body_gets_some_and_so_does_each_of_its_fields() -> None:
    drawn: dict[str, list[bytes]] = {path: [] for path in WITH_BODY}
    for number in range(5000):
        body = draw_body(number)
        drawn[body.operation.path].append(body.raw)
    for path, fitting in FITTINGS.items():
        sent = b"".join(drawn[path])
        assert [name for name in fitting.names() if f'"{name}"'.encode() not in sent] == [], path


def test_each_field_is_null_once_and_of_each_other_type() -> None:
    for operation in WITH_BODY.values():
        bodies = b"\n".join(body.raw for body in swapped(operation))
        for name in FITTINGS[operation.path].names():
            for value in SIMPLE:
                assert written({name: value})[1:-1] in bodies, (operation.path, name, value)


def test_values_of_a_meaning_are_of_fields_that_some_schema_has() -> None:
    names = {name for fitting in FITTINGS.values() for name in _names(fitting.schema)}
    assert TELLING.keys() - names == set()


def _names(schema: object) -> set[str]:
    if isinstance(schema, dict):
        inner = set[str]().union(*map(_names, schema.values()))
        return inner | set(schema.get("properties", {}))
    return set[str]().union(*map(_names, schema)) if isinstance(schema, list) else set()


def test_spoilers_are_no_json_or_no_finite_number() -> None:
    for spoiler in SPOILERS:
        text = written({"a": spoiler})
        try:
            value = from_json(text)["a"]
        except ValueError:
            continue
        assert value in (float("inf"), float("-inf")) or value != value, text


def test_raw_bytes_stand_as_they_are() -> None:
    assert written({"a": [raw(b"1e999"), "b"]}) == b'{"a": [1e999, "b"]}'


def test_every_route_gets_requests_over_both_protocols() -> None:
    drawn = [draw_request(number) for number in MANY]
    sent = b"".join(request.raw for request in drawn if not request.is_http2)
    assert [each.path for each in OPERATIONS if each.path.partition("{")[0].encode() not in sent] == []
    assert 50 < sum(request.is_http2 for request in drawn) < 300


def test_visits_ask_for_all_that_has_no_body_and_for_all_that_can_be_asked_of_what_is_stored() -> None:
    drawn = [draw_visit(number) for number in MANY]
    asked = {each.operation.name for visit in drawn for each in visit.followups}
    stored = {operation.name for of_one in OF_ONE.values() for operation in of_one}
    assert asked == stored | {operation.name for operation in BARE}
    assert {visit.makes.path for visit in drawn} == MAKES.keys()


def test_each_parameter_that_is_declared_is_sent_with_what_it_takes_and_with_more() -> None:
    followups = [each for number in range(3000) for each in draw_visit(number).followups]
    for operation in BARE:
        of_it = [each for each in followups if each.operation is operation]
        for parameter in operation.parameters:
            if parameter.place == "query":
                sent = {each.template for each in of_it if f"{parameter.name}=" in each.template}
            else:
                sent = {each.template + repr(each.headers) for each in of_it}
            assert len(sent) > 5, (operation.path, parameter.name)


def test_a_visit_to_the_feed_ends() -> None:
    followups = [each for number in MANY for each in draw_visit(number).followups]
    endless = [each.template for each in followups if each.operation.endless]
    assert endless
    assert not [template for template in endless if "?follow=" not in template or "?follow=true" in template]


def test_large_ones_are_large() -> None:
    for body in large_bodies(50_000):
        if not body.what.startswith("a large"):
            assert 30_000 < len(body.raw) < 140_000, body.what
