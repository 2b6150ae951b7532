"""A model's tokens for infilling tell in which order it wants the parts."""

from __future__ import annotations

import pytest

from runtime.text.infill import SPELLINGS, InfillTokens, Spelling

BEFORE, AFTER = [1, 2], [3, 4]


class Names:
    """A vocabulary of some named tokens, numbered from 100."""

    def __init__(self, *names: str | None) -> None:
        self._names = [name for name in names if name is not None]

    def token_id(self, token: str) -> int | None:
        """Return the id of a token."""
        return 100 + self._names.index(token) if token in self._names else None


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.prefix)
def test_each_spelling_is_found_by_its_tokens(spelling: Spelling) -> None:
    names = (spelling.prefix, spelling.suffix, spelling.middle, spelling.file, spelling.repository)
    vocabulary = Names(*names)
    tokens = InfillTokens.of(vocabulary)
    assert tokens is not None
    found = (tokens.prefix, tokens.suffix, tokens.middle, tokens.file, tokens.repository)
    assert found == tuple(name and vocabulary.token_id(name) for name in names)
    assert tokens.suffix_first == spelling.suffix_first


def test_a_vocabulary_without_all_of_them_has_none() -> None:
    assert InfillTokens.of(Names()) is None
    assert InfillTokens.of(Names("<|fim_prefix|>", "<|fim_suffix|>")) is None


def test_starcoder_is_not_taken_for_its_successor() -> None:
    tokens = InfillTokens.of(Names("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"))
    assert tokens is not None
    assert tokens.file is None


def test_the_order_of_the_parts() -> None:
    assert InfillTokens(10, 11, 12).arrange(BEFORE, AFTER) == [10, 1, 2, 11, 3, 4, 12]
    assert InfillTokens(10, 11, None, suffix_first=True).arrange(BEFORE, AFTER) == [11, 3, 4, 10, 1, 2]


def test_other_files_come_before_the_one_with_the_gap() -> None:
    tokens = InfillTokens(10, 11, 12, file=13, repository=14)
    assert tokens.with_files([7], [BEFORE, AFTER], [8]) == [14, 7, 13, 1, 2, 13, 3, 4, 13, 8]
    assert InfillTokens(10, 11, 12, file=13).with_files([7], [BEFORE], [8]) == [13, 1, 2, 13, 8]
    assert InfillTokens(10, 11, 12).with_files([7], [BEFORE], [8]) is None
