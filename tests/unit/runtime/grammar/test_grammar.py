"""Grammars in source form."""

from __future__ import annotations

from runtime.grammar.grammar import Grammar, GrammarKind


def test_the_same_text_in_another_language_is_another_grammar() -> None:
    assert Grammar(GrammarKind.REGEX, "a+") == Grammar(GrammarKind.REGEX, "a+")
    assert len({Grammar(kind, "a+") for kind in GrammarKind}) == len(GrammarKind)
