"""Tokenising costs what the context allows, gives the tokens of the whole text, and lets other threads run."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.store.resolve import resolve_model
from runtime.text.prompt_tokens import TooManyTokens, encode_end, encode_within
from runtime.text.tokenizer import Tokenizer
from tests.models.small_tokenizers import CORPUS, byte_level, llama2_style

BACKENDS = {
    "embedded": tokenizers.Tokenizer.from_file(str(resolve_model(None) / "tokenizer.json")),
    "byte-level": byte_level(),
    "llama2": llama2_style(),
}
TOKENIZERS = {name: Tokenizer(backend) for name, backend in BACKENDS.items()}
every_tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS.keys())
anytime = settings(deadline=None, max_examples=60)  # a busy machine is no failure

# What texts are made of: words, runs without an end, characters of several bytes, parts of special tokens.
PARTS = [" ", "\n", "    ", "a", "ab", "the ", "self.", "<|im_", "start|>", "<s>", "=====", "東京", "😀", "é", "0", "_"]


class Counting:
    """A tokenizer that counts the characters it is asked to encode."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.longest_token = tokenizer.longest_token
        self.calls: list[int] = []
        self._tokenizer = tokenizer

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Encode, and note how many characters it was asked for."""
        self.calls.append(len(text))
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens)


# --- the tokens are those of the whole text -----------------------------------------------------------------------


@every_tokenizer
@anytime
@given(st.lists(st.sampled_from(PARTS), max_size=40), st.integers(1, 60), st.integers(1, 40))
def test_what_fits_is_encoded_as_a_whole_and_only_what_does_not_is_refused(
    tokenizer: Tokenizer, parts: list[str], repeats: int, most: int
) -> None:
    text = "".join(parts) * repeats
    exact = tokenizer.encode(text)
    try:
        assert encode_within(tokenizer, text, most) == exact
    except TooManyTokens:
        assert len(exact) > most


@every_tokenizer
@anytime
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=60), st.integers(1, 30), st.data())
def test_a_cut_adds_fewer_tokens_than_are_taken_off_for_it(
    tokenizer: Tokenizer, parts: list[str], repeats: int, data: st.DataObject
) -> None:
    """On this rests that nothing is refused that would fit."""
    text = "".join(parts) * repeats
    cut = data.draw(st.integers(0, len(text)))
    pieces = [tokenizer.encode(piece, add_special_tokens=False) for piece in (text[:cut], text[cut:])]
    added = sum(map(len, pieces)) - len(tokenizer.encode(text, add_special_tokens=False))
    assert added <= 2 * tokenizer.longest_token


@pytest.mark.parametrize("count", range(60, 101, 5))
def test_what_just_fits_is_not_refused_for_the_cuts(count: int) -> None:
    """Each cut goes through a special token, whose parts are several tokens."""
    tokenizer = TOKENIZERS["byte-level"]
    text = "<|im_start|>" * count
    assert len(text) > 2 * 100 + 16 * tokenizer.longest_token
    assert encode_within(tokenizer, text, 100, add_special_tokens=False) == [1] * count


# --- the cost is the context's ------------------------------------------------------------------------------------

LONG = 400_000
HOSTILE = {
    "prose": (CORPUS[0] + " ") * (LONG // len(CORPUS[0])),
    "one word": "a" * LONG,
    "digits": "1234567890" * (LONG // 10),
    "spaces": " " * LONG,
    "no spaces": "東京の天気は晴れです" * (LONG // 10),
}


@every_tokenizer
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_text_that_cannot_fit_is_refused_before_much_of_it_is_encoded(tokenizer: Tokenizer, kind: str) -> None:
    counting, most = Counting(tokenizer), 200
    with pytest.raises(TooManyTokens):
        encode_within(counting, HOSTILE[kind], most)
    assert sum(counting.calls) == 0  # more than 200 of the longest tokens could spell


@every_tokenizer
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_text_that_might_fit_is_encoded_twice_at_most_and_in_pieces_first(tokenizer: Tokenizer, kind: str) -> None:
    counting, most = Counting(tokenizer), 1000
    text = HOSTILE[kind][: most * tokenizer.longest_token]
    try:
        encode_within(counting, text, most)
        assert sum(counting.calls) <= 2 * len(text)
    except TooManyTokens:
        assert max(counting.calls) <= 2 * most + 16 * tokenizer.longest_token
        assert sum(counting.calls) <= len(text)


def test_prose_is_refused_after_a_few_contexts() -> None:
    counting, most = Counting(TOKENIZERS["embedded"]), 8000
    with pytest.raises(TooManyTokens):
        encode_within(counting, "def run(self): return self.drain(1)\n" * 9000, most)
    assert sum(counting.calls) < 6 * most


def test_an_ordinary_text_is_encoded_once() -> None:
    counting = Counting(TOKENIZERS["embedded"])
    encode_within(counting, CORPUS[0], 4000)
    assert counting.calls == [len(CORPUS[0])]


# --- other threads run meanwhile ----------------------------------------------------------------------------------


@pytest.fixture
def turns_of_another() -> Iterator[Callable[[Callable[[], object]], int]]:
    """Yield how often another thread has its turn during a call.

    Threads do not take turns by the clock here: another one runs only when this one lets go of the interpreter.
    """
    interval, done, turns = sys.getswitchinterval(), threading.Event(), [0]

    def count() -> None:
        while not done.is_set():
            turns[0] += 1
            time.sleep(0)

    def during(call: Callable[[], object]) -> int:
        before = turns[0]
        call()
        return turns[0] - before

    sys.setswitchinterval(1000)
    other = threading.Thread(target=count)
    other.start()
    try:
        yield during
    finally:
        done.set()
        sys.setswitchinterval(interval)
        other.join()


@pytest.mark.parametrize("name", BACKENDS)
def test_another_thread_advances_while_a_text_is_encoded_or_decoded(
    name: str, turns_of_another: Callable[[Callable[[], object]], int]
) -> None:
    tokenizer, backend = TOKENIZERS[name], BACKENDS[name]
    text = " ".join(CORPUS) * 200
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert turns_of_another(lambda: tokenizer.encode(text)) > 3
    assert turns_of_another(lambda: tokenizer.decode(ids)) > 3
    # The library's functions for one text do not let go, which shows that the turns tell.
    assert turns_of_another(lambda: backend.encode(text)) == 0
    assert turns_of_another(lambda: backend.decode(ids)) == 0


@every_tokenizer
@anytime
@given(st.lists(st.sampled_from(PARTS), max_size=400).map("".join), st.integers(1, 40))
def test_the_end_of_a_text_has_the_tokens_of_the_whole(tokenizer: Tokenizer, text: str, most: int) -> None:
    whole = tokenizer.encode(text, add_special_tokens=False)
    assert encode_end(tokenizer, text, most) == whole[max(0, len(whole) - most) :]


@every_tokenizer
def test_no_more_of_a_text_is_encoded_than_its_end_takes(tokenizer: Tokenizer) -> None:
    counting = Counting(tokenizer)
    text = CORPUS[0] * (2_000_000 // len(CORPUS[0]))
    ids = encode_end(counting, text, 50)
    assert len(ids) == 50
    assert sum(counting.calls) < 100_000
