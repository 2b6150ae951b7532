"""The scanner ends where the library's decoder does, and accepts what that accepts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.chat.reading.json_scanner import JsonScanner

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def scan(text: str, size: int = 1, *, repairs: bool = False) -> tuple[JsonScanner, str, str]:
    """Feed a text in pieces; return the scanner, what was written, and what was left over."""
    scanner, written, at = JsonScanner(repairs=repairs), "", 0
    while at < len(text) and not scanner.done and not scanner.failed:
        end, piece = scanner.feed(text[at : at + size], 0)
        assert end or scanner.done or scanner.failed
        written += piece
        at += end
    if not scanner.done and not scanner.failed:
        written += scanner.finish()
    return scanner, written, text[at:]


@given(json_values, st.sampled_from([None, 1]), st.booleans(), st.integers(1, 9))
def test_any_value_to_its_end(value: object, indent: int | None, ensure_ascii: bool, size: int) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    scanner, written, rest = scan(f"{text} ,x", size)
    assert scanner.done
    assert written == text
    assert rest == " ,x"


@given(st.text('{}[]",:\\u0aetrn1.-+ \n') | st.from_regex(r'[\[{]["a0-9,:\[\]{}. ]{0,12}', fullmatch=True))
def test_it_accepts_what_the_library_accepts(text: str) -> None:
    scanner, written, rest = scan(text)
    try:
        json.loads(text, strict=False)
        valid = True
    except ValueError:
        valid = False
    assert (scanner.done and not rest.strip()) == valid
    if valid:
        assert json.loads(written) == json.loads(text, strict=False)


@pytest.mark.parametrize(
    "text", ['{"a": nope}', "[1 2]", '{"a" 1}', "{1: 2}", "[1,]", '{"a": 1,}', '"\\x"', "]", "01", ""]
)
def test_what_is_no_json_fails(text: str) -> None:
    scanner, _, _ = scan(text)
    assert scanner.failed
    assert not scanner.done


@given(json_values, st.booleans(), st.integers(1, 9))
def test_what_is_json_needs_no_repair(value: object, ensure_ascii: bool, size: int) -> None:
    text = json.dumps(value, ensure_ascii=ensure_ascii)
    assert scan(text, size, repairs=True)[1] == text


@pytest.mark.parametrize("size", [1, 2, 3, 50])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"C:\Users \d+ \(x\) \u12 \uzz \""', r'C:\Users \d+ \(x\) \u12 \uzz "'),
        (r'"\ud800 \ud83d\ude00 \ude00 \ud83d\ud83d\ude00 \ud83d\n\ud83d\x\ud83d"', "? 😀 ? ?😀 ?\n?\\x?"),
        ('["\\\n"]', ["\\\n"]),
        ("[NaN, -Infinity,Infinity, True,False ,None]", ["NaN", "-Infinity", "Infinity", True, False, None]),
    ],
)
def test_what_can_mean_one_thing_only_is_repaired(text: str, value: object, size: int) -> None:
    scanner, written, rest = scan(text, size, repairs=True)
    assert scanner.done
    assert not rest
    if isinstance(value, str):
        value = value.replace("?", "\N{REPLACEMENT CHARACTER}")
    assert json.loads(written) == value


@pytest.mark.parametrize("text", ["[nan]", "[Nope]", "{True: 1}", "[1 None]", '["a" b]', "{'a': 1}", "[NaNa]"])
def test_what_can_mean_more_is_not(text: str) -> None:
    assert scan(text, repairs=True)[0].failed
