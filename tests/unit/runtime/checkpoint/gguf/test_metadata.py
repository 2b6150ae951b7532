"""Values by the type that their reader expects."""

from __future__ import annotations

import re

import pytest

from runtime.checkpoint.gguf.metadata import Metadata
from runtime.errors import CheckpointError

METADATA = Metadata("m.gguf", {"i": 3, "f": 0.5, "b": True, "s": "x", "words": ["a", "b"], "empty": []})


def test_values_are_found_by_key_and_type() -> None:
    assert METADATA.require("i", int) == 3
    assert METADATA.require("i", float) == 3.0
    assert METADATA.find("b", bool) is True
    assert METADATA.require_list("words", str) == ["a", "b"]
    assert METADATA.find_list("empty", int) == []
    assert METADATA.find("none", str) is None
    assert METADATA.find_list("none", str) is None


@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        ("b", int, "m.gguf: b is True, and should be of type int"),
        ("i", bool, "m.gguf: i is 3, and should be of type bool"),
        ("f", int, "m.gguf: f is 0.5, and should be of type int"),
        ("words", str, "m.gguf: words is a list of 2, 'a' first, and should be of type str"),
        ("none", str, "m.gguf: none is missing"),
    ],
)
def test_another_type_is_refused(key: str, kind: type[int], message: str) -> None:
    with pytest.raises(CheckpointError, match=re.escape(message)):
        METADATA.require(key, kind)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("words", "m.gguf: words is a list of 2, 'a' first, and should be a list of type int"),
        ("i", "m.gguf: i is 3, and should be a list of type int"),
        ("none", "m.gguf: none is missing"),
    ],
)
def test_another_list_is_refused(key: str, message: str) -> None:
    with pytest.raises(CheckpointError, match=re.escape(message)):
        METADATA.require_list(key, int)
