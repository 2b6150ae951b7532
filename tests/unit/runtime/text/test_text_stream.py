"""Text out of tokens as they come: whole characters, stop strings, and nothing that is taken back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.text.stop_strings import StopAutomaton, StopMatcher
from runtime.text.text_stream import Detokenizer, TextDelta, TextStream
from runtime.text.tokenizer import Tokenizer
from tests.models.small_tokenizers import byte_level, llama2_style

BYTE_LEVEL = Tokenizer(byte_level())
LLAMA2 = Tokenizer(llama2_style())
TOKENIZERS = {
    "byte-level": BYTE_LEVEL,
    "llama2": LLAMA2,
    "gemma": Tokenizer(llama2_style("gemma")),
    "metaspace": Tokenizer(llama2_style("metaspace")),
}
HARD_TEXTS = [
    "👩‍👩‍👧‍👦 and 🏳️‍🌈 and 👍🏽 and 🇩🇪",
    "東京の天気は晴れです。你好、世界。",
    "naïve Größe, e\u0301 combining",
    "  two leading spaces,\ttabs\nand lines\r\n",
    " ",
    "",
    "\ufffd itself",
]
REPLACEMENT = "\ufffd"

anytime = settings(deadline=None)  # a busy machine is no failure
every_tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS.keys())


def stream(tokenizer: Tokenizer, ids: Iterable[int], stop: Sequence[str] = ()) -> str:
    """The whole text, pushed token by token."""
    text_stream = TextStream(tokenizer, StopAutomaton(stop))
    return "".join(text_stream.push(token_id).text for token_id in ids) + text_stream.flush()


def cut(text: str, stops: Sequence[str]) -> str:
    """The reference: the stop that is complete first, the longest of those, and the text before it."""
    ends = [(text.index(stop) + len(stop), -len(stop)) for stop in stops if stop in text]
    if not ends:
        return text
    end, minus_length = min(ends)
    return text[: end + minus_length]


# --- ids to text --------------------------------------------------------------------------------------------


@every_tokenizer
@pytest.mark.parametrize("text", HARD_TEXTS)
def test_stream_equals_decode_and_never_shows_half_a_character(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.push(token_id) for token_id in ids]
    assert "".join(pieces) + detokenizer.flush() == tokenizer.decode(ids)
    assert "".join(pieces).count(REPLACEMENT) == text.count(REPLACEMENT)


@every_tokenizer
@anytime
@given(text=st.text())
def test_any_text(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert stream(tokenizer, ids) == tokenizer.decode(ids)


@anytime
@given(st.lists(st.integers(0, BYTE_LEVEL.vocab_size + 20)))
def test_any_ids_of_a_byte_level_vocabulary(ids: list[int]) -> None:
    assert stream(BYTE_LEVEL, ids) == BYTE_LEVEL.decode(ids)


@anytime
@given(st.text("the dog,"), st.integers(1, 3))
def test_a_character_cut_off_at_the_end_shows_as_decode_does(text: str, missing: int) -> None:
    for tokenizer in (BYTE_LEVEL, LLAMA2):
        ids = tokenizer.encode(text + "😀")[:-missing]
        assert stream(tokenizer, ids) == tokenizer.decode(ids)


@anytime
@given(st.lists(st.sampled_from([*range(3, 259), *range(259, 500, 7)])))
def test_any_ids_of_a_byte_fallback_vocabulary(ids: list[int]) -> None:
    """Whole characters within a broken run are shown here only; nothing that `decode` shows may be lost."""
    ours, theirs = stream(LLAMA2, ids), LLAMA2.decode(ids)
    if REPLACEMENT not in theirs:
        assert ours == theirs
    shown = ours.replace(REPLACEMENT, "")
    characters = iter(shown)
    assert all(char in characters for char in theirs.replace(REPLACEMENT, ""))  # in order


@anytime
@given(st.lists(st.binary(min_size=1, max_size=1)))
def test_no_more_than_three_bytes_are_kept_back(raw: list[bytes]) -> None:
    ids = [LLAMA2.token_id(f"<0x{byte[0]:02X}>") for byte in raw]
    detokenizer = Detokenizer(LLAMA2, continues=True)
    shown = 0
    for count, token_id in enumerate(ids, start=1):
        assert token_id is not None
        text = detokenizer.push(token_id)
        # Each byte shows as a U+FFFD of its own or as part of a character.
        shown += sum(1 if char == REPLACEMENT else len(char.encode()) for char in text)
        assert count - 3 <= shown <= count


def test_garbage_streams_at_once() -> None:
    detokenizer = Detokenizer(LLAMA2)
    continuation = LLAMA2.token_id("<0xA9>")
    assert continuation is not None
    assert [detokenizer.push(continuation) for _ in range(1000)] == [REPLACEMENT] * 1000


def test_special_tokens_are_not_text() -> None:
    ids = BYTE_LEVEL.encode("<|im_start|>one<think>two<|im_end|>")
    assert stream(BYTE_LEVEL, ids) == "one<think>two"
    # Not even between the bytes of a character.
    first, *rest = [LLAMA2.token_id(f"<0x{byte:02X}>") or 0 for byte in "😀".encode()]
    assert stream(LLAMA2, [first, 2, *rest]) == "😀" == LLAMA2.decode([first, 2, *rest])


@pytest.mark.parametrize(
    ("style", "alone", "continued"),
    [
        ("llama2", "fox", " fox"),
        ("gemma", " fox", " fox"),
        ("metaspace", "fox", " fox"),
        ("byte-level", "fox", "fox"),
    ],
)
def test_the_leading_space_belongs_to_a_continuation(style: str, alone: str, continued: str) -> None:
    tokenizer = TOKENIZERS[style]
    ids = tokenizer.encode("fox")  # BOS first, where there is one: it does not count as a beginning
    for continues, expected in ((False, alone), (True, continued)):
        text_stream = TextStream(tokenizer, continues=continues)
        assert "".join(text_stream.push(token_id).text for token_id in ids) == expected


def test_only_one_leading_space_is_stripped_even_when_it_is_a_token_of_its_own() -> None:
    space = LLAMA2.token_id("▁")
    assert space is not None
    ids = [space, space, *LLAMA2.encode("dog", add_special_tokens=False)]
    assert stream(LLAMA2, ids) == LLAMA2.decode(ids) == "  dog"


def test_a_continued_prompt_joins_up() -> None:
    ids = LLAMA2.encode("the lazy dog, and the fox", add_special_tokens=False)
    for split in range(1, len(ids)):
        text_stream = TextStream(LLAMA2, continues=True)
        rest = "".join(text_stream.push(token_id).text for token_id in ids[split:])
        assert LLAMA2.decode(ids[:split]) + rest == "the lazy dog, and the fox"


# --- stop strings -------------------------------------------------------------------------------------------


def run_matcher(stops: Sequence[str], pieces: Iterable[str]) -> str:
    matcher = StopMatcher(StopAutomaton(stops))
    return "".join(matcher.push(piece) for piece in pieces) + matcher.flush()


def test_texts_share_an_automaton_and_none_sees_another() -> None:
    automaton = StopAutomaton(["one", "never"])
    first, second = StopMatcher(automaton), StopMatcher(automaton)
    assert (first.push("on"), second.push("nev")) == ("", "")
    assert (first.push("ly"), second.push("er")) == ("only", "")
    assert (first.found, second.found) == (None, "never")


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopAutomaton(["a", ""])


# A small alphabet, so that overlaps are the rule.
tight = st.text("ab", max_size=24)
tight_stops = st.lists(st.text("ab", min_size=1, max_size=6), max_size=16)


@anytime
@given(st.lists(tight), tight_stops)
def test_the_split_does_not_matter(pieces: list[str], stops: list[str]) -> None:
    text = "".join(pieces)
    assert run_matcher(stops, pieces) == cut(text, stops)


@anytime
@given(tight, tight, tight_stops)
def test_a_stop_that_nobody_looks_for_is_text(before: str, after: str, stops: list[str]) -> None:
    """What is looked for is the end of a stop: it may have begun earlier."""
    matcher = StopMatcher(StopAutomaton(stops))
    sent = matcher.push(before, match_stops=False)
    assert matcher.found is None
    text = before + after
    ends = [
        (end, -len(stop))
        for stop in stops
        for end in range(len(before) + 1, len(text) + 1)
        if text[:end].endswith(stop)
    ]
    end, minus_length = min(ends, default=(len(text), 0))
    assert sent + matcher.push(after) + matcher.flush() == text[: end + minus_length]
    assert (matcher.found is not None) == bool(ends)


@anytime
@given(tight, tight_stops)
def test_what_is_kept_back_is_the_longest_end_that_begins_a_stop(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(StopAutomaton(stops))
    sent = matcher.push(text)
    if matcher.found is None:
        beginnings = [n for n in range(len(text) + 1) if any(s.startswith(text[len(text) - n :]) for s in stops)]
        assert len(text) - len(sent) == max(beginnings, default=0)


@st.composite
def texts_with_stops(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text, and stops most of which are in it."""
    text = draw(st.text(min_size=1) | st.sampled_from([t for t in HARD_TEXTS if t]))
    stops = []
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text) - 1))
        stops.append(text[start : start + draw(st.integers(1, 5))])
    return text, stops + draw(st.lists(st.text(min_size=1, max_size=4), max_size=2))


@anytime
@given(texts_with_stops())
def test_stream_with_stops_equals_decode_cut_at_the_first(case: tuple[str, list[str]]) -> None:
    text, stops = case
    for tokenizer in (BYTE_LEVEL, LLAMA2):
        ids = tokenizer.encode(text)
        assert stream(tokenizer, ids, stops) == cut(tokenizer.decode(ids), stops)


def test_a_stop_across_tokens_and_nothing_after_it() -> None:
    text_stream = TextStream(BYTE_LEVEL, StopAutomaton(["stops exactly"]))
    ids = BYTE_LEVEL.encode("cancelling it stops exactly its own work")
    deltas = [text_stream.push(token_id) for token_id in ids]
    assert "".join(delta.text for delta in deltas) == "cancelling it "
    assert [delta.stopped for delta in deltas] == sorted(delta.stopped for delta in deltas)
    assert deltas[-1] == TextDelta("", stopped=True)
    assert text_stream.stop_found == "stops exactly"
    assert text_stream.flush() == ""


# --- cost ---------------------------------------------------------------------------------------------------


def seconds_per_token(ids: list[int], stop: Sequence[str]) -> float:
    best = float("inf")
    for _ in range(3):
        text_stream = TextStream(BYTE_LEVEL, StopAutomaton(stop))
        began = time.thread_time()
        for token_id in ids:
            text_stream.push(token_id)
        best = min(best, time.thread_time() - began)
    return best / len(ids)


@pytest.mark.parametrize("garbage", [False, True])
def test_the_cost_of_a_token_does_not_grow(garbage: bool) -> None:
    stop = ["never" * 20, "\n\n\n", "###"]
    unit = [BYTE_LEVEL.token_id("©") or 0] if garbage else BYTE_LEVEL.encode("The quick brown fox. ")
    short, long = unit * (1000 // len(unit)), unit * (50_000 // len(unit))
    assert seconds_per_token(long, stop) < 10 * seconds_per_token(short, stop)  # 50 times the length
