"""Numbers as people write them."""

from __future__ import annotations

from runtime.common.units import counted


def test_one_of_a_thing_is_no_plural() -> None:
    assert [counted(number, "request") for number in (0, 1, 2)] == ["0 requests", "1 request", "2 requests"]
