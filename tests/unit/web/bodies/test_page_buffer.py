"""A buffer that is emptied a page at a time."""

from __future__ import annotations

import random

from web.bodies.page_buffer import PageBuffer


def test_pages_have_one_size_and_only_the_last_is_shorter() -> None:
    pages = PageBuffer(4)
    pages.write(b"abc")
    pages.write(b"defghij")
    assert len(pages) == 10
    assert [pages.take() for _ in range(4)] == [b"abcd", b"efgh", b"ij", b""]
    assert len(pages) == 0


def test_what_is_taken_is_what_was_written_in_any_order_of_calls() -> None:
    draw = random.Random(7)
    for _ in range(50):
        pages, written, taken = PageBuffer(8), b"", b""
        for _ in range(40):
            if draw.random() < 0.6:
                data = draw.randbytes(draw.randrange(20))
                pages.write(data)
                written += data
            else:
                taken += pages.take()
            assert len(pages) == len(written) - len(taken)
        while page := pages.take():
            taken += page
        assert taken == written


def test_a_cleared_buffer_is_empty() -> None:
    pages = PageBuffer(4)
    pages.write(b"abcdefghi")
    pages.clear()
    assert len(pages) == 0
    assert pages.take() == b""
