"""Text from outside, as it may be shown."""

from __future__ import annotations

from runtime.common.log_text import literal, printable, quoted, shortened

FORGERY = "x\r\n2026-01-01 00:00:00,000 ERROR   cede.web: forged\x1b[2J\x9b31m\u2028\0\x7f"


def test_a_literal_is_printable_and_short() -> None:
    assert literal("plain") == "'plain'"
    assert literal(FORGERY).isprintable()
    assert len(literal("\x1b" * 10_000)) <= 4 * 200 + 5
    assert literal("a" * 300, limit=3) == "'aaa'..."


def test_what_is_not_printable_is_escaped_and_all_else_stays() -> None:
    assert printable("a 'b' \\ ü") == "a 'b' \\ ü"
    assert printable("a\nb\x1b\x7f") == "a\\nb\\x1b\\x7f"
    assert printable(FORGERY).isprintable()


def test_what_is_too_long_keeps_its_ends() -> None:
    assert shortened("in 'slots': " + "x" * 100_000 + " is not a number", limit=60) == (
        "in 'slots': xxxxxxxxxxxxxxxxxxxxxxxxx...xxxx is not a number"
    )
    assert shortened("short", limit=5) == "short"
    assert len(shortened("x" * 100_000)) == 2000


def test_a_value_is_quoted_shortly() -> None:
    assert quoted(3.5) == "3.5"
    assert quoted("2GB\n") == r"'2GB\n'"
    assert len(quoted(["x" * 100_000])) == 200
    assert quoted(FORGERY).isprintable()
