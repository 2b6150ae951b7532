"""Rows of equal length, cut out of documents in a seeded order."""

from __future__ import annotations

import itertools

import torch

from bench.training.data import Rows

DOCUMENTS = [list(range(100, 100 + length)) for length in (7, 30, 12)]


def test_a_row_is_a_piece_of_the_text_and_the_token_after_it() -> None:
    rows = Rows(DOCUMENTS, seed=1).take(4, 6)
    assert rows.shape == (4, 7)
    orders = {
        token: {document[i + 1] for document in DOCUMENTS for i in range(len(document) - 1) if document[i] == token}
        for token in rows.flatten().tolist()
    }
    starts = {document[0] for document in DOCUMENTS}
    for row in rows.tolist():
        for token, following in itertools.pairwise(row):
            assert following in orders[token] | starts


def test_a_seed_fixes_the_rows_and_another_gives_others() -> None:
    first, again, other = (Rows(DOCUMENTS, seed).take(20, 5) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
