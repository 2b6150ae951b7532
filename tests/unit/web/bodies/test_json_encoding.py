"""JSON in pieces says what JSON in one piece says, and no piece is long."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from web.bodies.json_encoding import BLOCK, JsonArrayBuilder, JsonStringBuilder, RawJson, dumps, iter_json
from web.bodies.page_buffer import PageBuffer

few = settings(max_examples=25, deadline=None)
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def whole(value: object) -> Any:  # noqa: ANN401
    return json.loads(b"".join(iter_json(value)))


@few
@given(st.dictionaries(st.text(), VALUES))
def test_any_value(value: dict[str, Any]) -> None:
    assert whole(value) == value


@pytest.mark.parametrize("count", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 3])
def test_long_arrays_of_numbers_and_long_strings(count: int) -> None:
    ids, text = tuple(range(count)), "🙂\ud83d\ude00é\n\0"[: count % 7] * count
    assert whole({"ids": ids, "text": text}) == json.loads(json.dumps({"ids": ids, "text": text}))
    assert all(len(piece) <= 12 * BLOCK for piece in iter_json({"ids": ids, "text": text}))


@few
@given(st.lists(st.text()), st.text())
def test_a_string_that_grew(parts: list[str], before: str) -> None:
    text = JsonStringBuilder(16, before)
    for part in parts:
        text.add(part)
    assert len(text) == len(json.dumps("".join(parts))) - 2
    # As strings are, which need not be Unicode.
    assert whole({"text": text}) == json.loads(json.dumps({"text": before + "".join(parts)}))
    assert len(text) == 0


@few
@given(st.lists(VALUES))
def test_an_array_that_grew(elements: list[Any]) -> None:
    array = JsonArrayBuilder(16)
    for element in elements:
        array.add(element)
    assert whole(array) == elements
    assert len(array) == 0


@pytest.mark.parametrize("count", [0, 1, 3])
def test_rows_are_made_when_their_turn_comes(count: int) -> None:
    made = []

    def row(n: int) -> dict[str, int]:
        made.append(n)
        return {"n": n}

    pieces = iter_json({"rows": map(row, range(count))})
    next(pieces)
    assert made == []
    assert json.loads(b'{"rows":' + b"".join(pieces)) == {"rows": [{"n": n} for n in range(count)]}


@dataclass(frozen=True, slots=True)
class Pair:
    """A dataclass in another."""

    left: Pair | None
    right: tuple[int, ...] = ()


def test_a_dataclass_is_an_object_of_its_fields() -> None:
    assert dumps([Pair(Pair(None, (1,)))]) == '[{"left":{"left":null,"right":[1]},"right":[]}]'
    with pytest.raises(TypeError, match="set is no JSON"):
        dumps(set())


@few
@given(st.lists(st.binary(max_size=40)), st.integers(1, 20))
def test_pages(parts: list[bytes], size: int) -> None:
    pages = PageBuffer(size)
    for part in parts:
        pages.write(part)
    data = b"".join(parts)
    assert len(pages) == len(data)
    taken = list(iter(pages.take, b""))
    assert b"".join(taken) == data
    assert all(len(page) == size for page in taken[:-1])
    assert len(pages) == 0


def test_pages_that_are_taken_while_they_grow() -> None:
    pages = PageBuffer(4)
    pages.write(b"abcdef")
    assert (pages.take(), pages.take(), pages.take()) == (b"abcd", b"ef", b"")
    pages.write(b"ghijkl")
    assert len(pages) == 6
    pages.clear()
    assert (len(pages), pages.take()) == (0, b"")


def test_what_is_json_already_becomes_one_line_of_ascii() -> None:
    value = {"a": "x\u2028y\x85z \U0001f600 \ud800"}
    encoded = b"".join(RawJson(json.dumps(value, ensure_ascii=False, indent=1)).iter_json())
    assert encoded.isascii()
    assert b"\n" not in encoded
    assert json.loads(encoded) == value
