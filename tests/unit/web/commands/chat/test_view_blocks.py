"""Markdown in pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from web.commands.chat.view import BlockStream

TEXT = """# Head

A paragraph
of two lines.

- one
- two

  still two
- three

```python
def f():

    return 1
```

| a | b |
|---|---|
| 1 | 2 |

The end."""


def html(text: str) -> str:
    return str(MarkdownIt().enable("table").render(text))


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


@given(st.lists(st.integers(0, 1000)))
def test_blocks_say_what_the_whole_text_says_however_it_is_cut(cuts: list[int]) -> None:
    stream = BlockStream()
    blocks = [block for piece in pieces_of(TEXT, cuts) for block in stream.feed(piece)]
    assert "".join(map(html, [*blocks, stream.end()])) == html(TEXT)
    assert stream.rest == ""


@given(st.text(alphabet="ab#-`>|1. []:\n"), st.lists(st.integers(0, 1000)))
def test_nothing_is_lost_of_any_text(text: str, cuts: list[int]) -> None:
    stream = BlockStream()
    blocks = [block for piece in pieces_of(text, cuts) for block in stream.feed(piece)]
    letters = "".join([*blocks, stream.end()])
    assert [letter for letter in letters if letter.strip()] == [letter for letter in text if letter.strip()]


def test_only_the_last_block_waits() -> None:
    stream = BlockStream()
    assert stream.feed("one\n\ntwo\n\n```\nthree\n\nfo") == ["one\n", "two\n"]
    assert stream.rest == "```\nthree\n\nfo"
    assert stream.feed("ur\n```\nfive\n") == ["```\nthree\n\nfour\n```"]
    assert stream.end() == "five\n"
