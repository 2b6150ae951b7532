"""Each kind of thing can be made, and says what is counted of it."""

from __future__ import annotations

import pytest

from bench.engine.memory.held import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_can_be_made(kind: str) -> None:
    make, _ = KINDS[kind]
    few, more = make(1), make(3)
    assert few.held
    is_bounded_by_a_number = "at most" in kind
    assert is_bounded_by_a_number == (few.counted is None)
    assert is_bounded_by_a_number or 0 < (few.counted or 0) < (more.counted or 0)
