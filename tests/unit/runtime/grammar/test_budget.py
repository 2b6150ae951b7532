"""A thought is bounded, and nothing else is."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import GrammarFailed
from runtime.grammar.compiler import GrammarCompiler
from runtime.grammar.grammar import Grammar, GrammarKind, ThoughtBudget
from runtime.text.tokenizer import Tokenizer
from tests.models.small_tokenizers import byte_level, llama2_style

TOKENIZER = Tokenizer(byte_level())
CONSTRAIN = GrammarCompiler(TOKENIZER, TOKENIZER.vocab_size, (2,)).constrain
BUDGET = ThoughtBudget(4, "<think>", "</think>")
CHANNELS = ThoughtBudget(4, "<think>a:", "<|im_end|>", again=True)
HELD = 'start: until /[{][a-z]*[}]/\nuntil[suffix="</think>"]: /(.|\\n)*/\n'
MATCHERS = {
    "any": Grammar(GrammarKind.ANY, "", budget=BUDGET),
    "begun": Grammar(GrammarKind.ANY, "", budget=dataclasses.replace(BUDGET, begun=True)),
    "again": Grammar(GrammarKind.ANY, "", budget=CHANNELS),
    "held": Grammar(GrammarKind.LARK, HELD, budget=dataclasses.replace(BUDGET, begun=True)),
}
THINK = TOKENIZER.added_tokens["<think>"]
PIECES = ["<think>", "</think>", " ", "\n", "x", "</th", "ink>", "a:", "<|im_end|>", "{", "}"]


def ids(text: str) -> list[int]:
    """A token for each character, but for the marker that is one."""
    before, marker, behind = text.partition("<think>")
    plain = [[TOKENIZER.encode(char, add_special_tokens=False)[0] for char in part] for part in (before, behind)]
    return [*plain[0], *([THINK] if marker else []), *plain[1]]


def spoken(name: str, wanted: str) -> str:
    """Return what a model says that wants to say this, and goes on where it was where it had to say something else."""
    matcher, said, rest = CONSTRAIN(MATCHERS[name]).matcher(), [], wanted
    while rest:
        (own, *_), forced = ids(rest), matcher.forced()
        token = forced[0] if forced else own
        assert allowed(matcher.mask_after(())) == ({token} if forced else None)
        matcher.accept(token)
        said.append(token)
        rest = rest.removeprefix(TOKENIZER.decode([token], skip_special_tokens=False))
    return TOKENIZER.decode(said, skip_special_tokens=False)


def allowed(bits: bytes | None) -> set[int] | None:
    """The tokens that may follow; None where any may."""
    return None if bits is None else {i for i in range(TOKENIZER.vocab_size) if bits[i // 8] >> i % 8 & 1}


def test_a_marker_that_is_a_token_is_said_as_one_though_it_was_begun_as_text() -> None:
    """A grammar takes the token alone for the end of the thought."""
    budget = dataclasses.replace(CHANNELS, opening="<think>", again=False, begun=True)
    matcher = CONSTRAIN(dataclasses.replace(MATCHERS["any"], budget=budget)).matcher()
    for token in ids("1ab<"):
        matcher.accept(token)
    assert matcher.forced() == [TOKENIZER.added_tokens["<|im_end|>"]]


def test_a_marker_is_said_whole_where_no_tokens_spell_its_rest() -> None:
    tokenizer = Tokenizer(llama2_style())
    constrain = GrammarCompiler(tokenizer, tokenizer.vocab_size, (2,)).constrain
    budget = dataclasses.replace(BUDGET, tokens=1, begun=True)
    matcher = constrain(dataclasses.replace(MATCHERS["any"], budget=budget)).matcher()
    matcher.accept(tokenizer.encode("<", add_special_tokens=False)[-1])
    said = b"".join(map(tokenizer.token_bytes, matcher.forced()))
    assert said.endswith(b"</think>")


@pytest.mark.parametrize(
    ("name", "wanted", "said"),
    [
        ("any", "<think>1234567", "<think>1234</think>567"),
        ("any", " \n<think>1234567", " \n<think>1234</think>567"),
        ("any", "<think>12</think>345678", "<think>12</think>345678"),
        ("any", "<think>123456</think>78", "<think>1234</think>56</think>78"),
        ("any", "Yes. <think>1234567", "Yes. <think>1234567"),
        ("any", "12345678", "12345678"),
        ("any", "<think>1</th34567", "<think>1</think>34567"),
        ("begun", "1234567", "1234</think>567"),
        ("begun", "12</think>345678", "12</think>345678"),
        ("again", "1<think>a:23456789", "1<think>a:2345<|im_end|>6789"),
        ("again", "<think>b:23456789", "<think>b:23456789"),
    ],
)
def test_behind_so_many_tokens_the_thought_ends(name: str, wanted: str, said: str) -> None:
    assert spoken(name, wanted) == said


def test_thoughts_of_one_answer_are_counted_together() -> None:
    matcher = CONSTRAIN(MATCHERS["again"]).matcher()
    for token_id in [*ids("<think>a:123"), 2, *ids("<think>a:4")]:
        assert matcher.mask_after(()) is None
        matcher.accept(token_id)
    assert matcher.forced() == [2]


def test_a_budget_of_nothing_is_an_empty_thought() -> None:
    grammar = Grammar(GrammarKind.ANY, "", budget=ThoughtBudget(0, "<think>", "</think>", begun=True))
    assert TOKENIZER.decode(CONSTRAIN(grammar).matcher().forced()) == "</think>"


def test_what_ends_a_thought_is_forced_and_what_follows_is_the_grammars() -> None:
    matcher = CONSTRAIN(MATCHERS["held"]).matcher()
    thought = ids("ab{}")
    assert matcher.count_valid([*thought, *ids("e")]) == len(thought)
    for token_id in thought:
        assert not matcher.forced()
        matcher.accept(token_id)
    closing = matcher.forced()
    assert TOKENIZER.decode(closing) == "</think>"
    assert matcher.count_valid([*closing, *ids("{a}")]) == len(closing) + 3
    assert matcher.count_valid([*closing, *ids("a")]) == len(closing)
    for token_id in [*closing, *ids("{a")]:
        matcher.accept(token_id)
    assert not matcher.is_free
    assert matcher.accept(ids("}")[0])


def test_who_thinks_on_fails() -> None:
    matcher = CONSTRAIN(MATCHERS["begun"]).matcher()
    with pytest.raises(GrammarFailed, match="budget is spent"):
        matcher.mask_after(ids("12345"))
    assert matcher.mask_after(ids("123")) is None


def test_who_has_thought_is_held_to_nothing_any_more() -> None:
    matcher = CONSTRAIN(MATCHERS["any"]).matcher()
    free = [matcher.is_free]
    matcher.accept(ids("Y")[0])
    assert [*free, matcher.is_free] == [False, True]
    assert not matcher.is_complete_after(ids("es"))


@given(st.sampled_from([*MATCHERS]), st.lists(st.sampled_from(PIECES), max_size=12), st.data())
def test_looking_ahead_changes_nothing(name: str, pieces: list[str], data: st.DataObject) -> None:
    """In any order of questions, the answers are those of a matcher that has accepted the tokens."""
    looking, walking = (CONSTRAIN(MATCHERS[name]).matcher() for _ in range(2))
    tokens = [token for piece in pieces for token in TOKENIZER.encode(piece, add_special_tokens=False)]
    tokens = tokens[: looking.count_valid(tokens)]
    at = data.draw(st.integers(0, len(tokens)))
    for token_id in tokens[:at]:
        looking.accept(token_id)
        walking.accept(token_id)
    assert looking.count_valid(tokens[at:]) == len(tokens) - at
    for i in range(at, len(tokens)):
        assert looking.mask_after(tokens[at:i]) == walking.mask_after(())
        assert looking.is_complete_after(tokens[at:i]) == walking.is_complete_after()
        walking.accept(tokens[i])
    assert looking.mask_after(()) == looking.mask_after(())
