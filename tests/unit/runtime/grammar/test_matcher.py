"""A matcher looks ahead, and takes back what it has seen there."""

from __future__ import annotations

import pytest

from runtime.errors import GrammarFailed
from runtime.grammar.compiler import GrammarCompiler
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.grammar.matcher import Matcher
from runtime.text.tokenizer import Tokenizer
from tests.models.small_tokenizers import byte_level

END = 2
TOKENIZER = Tokenizer(byte_level())
COMPILER = GrammarCompiler(TOKENIZER, TOKENIZER.vocab_size, (END,))


def matcher_of(regex: str) -> Matcher:
    return COMPILER.compile(Grammar(GrammarKind.REGEX, regex)).matcher()


def ids(text: str) -> list[int]:
    """One token for each character."""
    return [TOKENIZER.encode(char, add_special_tokens=False)[0] for char in text]


def allowed(bits: bytes) -> set[str]:
    """The characters that may follow, and the end; not the tokens of several characters."""
    found = {i for i in range(TOKENIZER.vocab_size) if bits[i // 8] >> i % 8 & 1}
    texts = {"END" if i == END else TOKENIZER.token_text(i) for i in found}
    return {text for text in texts if len(text) == 1 or text == "END"}


def test_a_mask_has_what_may_follow_at_each_place() -> None:
    matcher = matcher_of("[ab][cd]?")
    assert allowed(matcher.mask_after(())) == {"a", "b"}
    assert allowed(matcher.mask_after(ids("a"))) == {"c", "d", "END"}
    assert allowed(matcher.mask_after(ids("ac"))) == {"END"}
    matcher.accept(ids("b")[0])
    assert allowed(matcher.mask_after(())) == {"c", "d", "END"}


def test_what_was_looked_at_is_taken_back() -> None:
    """In any order of questions, the answers are those of a fresh matcher."""
    matcher = matcher_of("a(b(c|d)|c(d|e))f")
    paths = ["", "a", "ab", "abc", "ac", "acd", "ab", "abc", "", "ace", "acef"]
    for path in [*paths, *reversed(paths)]:
        assert matcher.mask_after(ids(path)) == matcher_of("a(b(c|d)|c(d|e))f").mask_after(ids(path)), path
    matcher.accept(ids("a")[0])
    assert allowed(matcher.mask_after(())) == {"b", "c"}


def test_an_output_is_complete_where_nothing_may_follow() -> None:
    matcher = matcher_of("ab?")
    assert not matcher.is_complete_after()
    assert not matcher.is_complete_after(ids("a"))
    assert matcher.is_complete_after(ids("ab"))
    assert matcher.is_complete_after([*ids("a"), END])
    assert not matcher.is_complete_after(ids("a"))


def test_who_takes_the_last_token_is_told_that_it_is_the_last() -> None:
    matcher = matcher_of("ab?")
    assert not matcher.accept(ids("a")[0])
    assert matcher.accept(ids("b")[0])
    after_looking = matcher_of("ab?")
    assert after_looking.is_complete_after(ids("ab"))
    assert not after_looking.accept(ids("a")[0])
    assert after_looking.accept(ids("b")[0])


def test_drafts_are_valid_up_to_the_first_that_is_not_allowed() -> None:
    matcher = matcher_of("abab?")
    assert matcher.count_valid(ids("abba")) == 2
    assert matcher.count_valid(ids("x")) == 0
    assert matcher.count_valid([]) == 0
    assert matcher.count_valid([*ids("aba"), END]) == 4
    assert matcher.count_valid(ids("aba")) == 3


def test_forced_tokens_are_those_without_a_choice() -> None:
    matcher = matcher_of("(x|y)the quick brown fox")
    assert matcher.forced() == []
    matcher.accept(ids("x")[0])
    assert TOKENIZER.decode(matcher.forced()) == "the quick brown fox"
    assert matcher.count_valid(ids("th")) == 2


def test_a_token_that_is_not_allowed_fails_every_later_question() -> None:
    matcher = matcher_of("ab")
    with pytest.raises(GrammarFailed):
        matcher.accept(ids("x")[0])
    for question in (
        lambda: matcher.mask_after(()),
        lambda: matcher.count_valid([1]),
        matcher.is_complete_after,
        matcher.forced,
    ):
        with pytest.raises(GrammarFailed):
            question()


def test_matchers_of_one_grammar_do_not_know_of_each_other() -> None:
    one, other = matcher_of("ab"), matcher_of("ab")
    one.accept(ids("a")[0])
    assert allowed(other.mask_after(())) == {"a"}
    assert allowed(one.mask_after(())) == {"b"}
