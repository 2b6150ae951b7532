"""What a body would cost its parser is found out in slices, before it is parsed."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import RequestError
from web.bodies import json_size as body_size
from web.bodies.json_size import check_json_size
from web.process.limits import MAX_ARRAYS, MAX_OBJECTS, MAX_VALUES

CONTEXT = 1000
VALUES = MAX_VALUES + CONTEXT

MILLIONS = 1_000_000
TOO_MUCH = {
    "numbers": b"[" + b"1," * MILLIONS,
    "prompts of a letter": b"[" + b'"a",' * MILLIONS,
    "lists": b"[" + b"[]," * MILLIONS,
    "objects": b"[" + b"{}," * MILLIONS,
    "nested lists": b"[" * MILLIONS,
    "fields": b"{" + b'"a":1,' * MILLIONS,
}


@pytest.mark.parametrize("kind", TOO_MUCH)
def test_too_many_values_are_refused_with_the_number(kind: str) -> None:
    with pytest.raises(RequestError, match=rf"more than ({MAX_ARRAYS}|{MAX_OBJECTS}|{VALUES}) ") as caught:
        check_json_size(TOO_MUCH[kind], CONTEXT)
    assert caught.value.status == 400


ENOUGH = {
    "token ids of a context and more": json.dumps({"prompt": [1234] * (VALUES - 1)}),
    "a text of commas and quotes": json.dumps({"prompt": '",",[[{{' * 300_000}),
    "a text of backslashes": json.dumps({"prompt": "\\" * 600_000}),
    "a text of escaped quotes": json.dumps({"prompt": '\\"' * 400_000}),
    "the longest conversation": json.dumps(
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "[,]"}]}] * 2048}
    ),
}


@pytest.mark.parametrize("kind", ENOUGH)
def test_what_a_request_may_hold_passes(kind: str) -> None:
    assert passes(ENOUGH[kind].encode(), CONTEXT)


def counted(value: object) -> Counter[str]:
    """Arrays, strings and objects, and commas between values."""
    match value:
        case str():
            return Counter(objects=1)
        case list():
            return sum(map(counted, value), Counter(arrays=1, values=max(0, len(value) - 1)))
        case dict():
            fields = Counter(objects=1 + len(value), values=max(0, len(value) - 1))
            return sum(map(counted, value.values()), fields)
    return Counter()


hard_text = st.text('"\\,[{}]aé😀\n', max_size=12)
trees = st.recursive(
    hard_text | st.integers() | st.none(),
    lambda below: st.lists(below, max_size=5) | st.dictionaries(hard_text, below, max_size=5),
    max_leaves=25,
)


@settings(deadline=None)
@given(trees, st.integers(2, 9), st.booleans())
def test_any_json_is_counted_as_it_is_however_the_slices_fall(tree: object, size: int, ascii_only: bool) -> None:
    raw = json.dumps(tree, ensure_ascii=ascii_only).encode()
    have = counted(tree)
    names = ("arrays", "objects", "values")
    for short in (None, *names):  # of which one fewer than there are is allowed
        most = {name: have[name] - (name == short) for name in names}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(body_size, "SLICE", size)
            for name in names:
                patch.setattr(body_size, f"MAX_{name.upper()}", most[name])
            fits = len(raw) <= most["arrays"] or short is None
            assert passes(raw) == fits


def passes(raw: bytes, context: int = 0) -> bool:
    try:
        check_json_size(raw, context)
    except RequestError:
        return False
    return True


@settings(deadline=None)
@given(st.binary(max_size=40) | st.text('"\\', max_size=12).map(str.encode))
def test_what_is_no_json_ends_too(raw: bytes) -> None:
    """With one verdict or the other, which is the parser's to give: no other error, and no endless loop."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body_size, "SLICE", 2)
        patch.setattr(body_size, "MAX_ARRAYS", 0)
        assert passes(raw) in (True, False)
