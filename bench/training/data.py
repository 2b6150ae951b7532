"""Token streams: documents in a seeded order, cut into rows of equal length."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import torch

from bench.corpus import END, END_OF_TEXT

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

    from bench.corpus import Split


def end_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the ids that end a text: ``<|endoftext|>`` and ``<|end|>``."""
    ids = [tokenizer.token_to_id(END_OF_TEXT), tokenizer.token_to_id(END)]
    return [token for token in ids if token is not None]


def encode(tokenizer: Tokenizer, split: Split) -> list[list[int]]:
    """Return the token ids of every document, each ended by ``<|endoftext|>``."""
    end = end_ids(tokenizer)[0]
    return [[*encoding.ids, end] for encoding in tokenizer.encode_batch([*split.files, *split.chats])]


class Rows:
    """An endless supply of rows.  Each pass over the documents has its own order and its own cuts."""

    def __init__(self, documents: list[list[int]], seed: int) -> None:
        self.documents = documents
        self.rng = random.Random(seed)
        self.stream = torch.empty(0, dtype=torch.long)
        self.starts: list[int] = []
        self.length = 0

    def _refill(self, length: int) -> None:
        order = self.documents[:]
        self.rng.shuffle(order)
        stream = [token for document in order for token in document]
        self.stream = torch.tensor(stream)
        offset = self.rng.randrange(length)
        self.starts = list(range(offset, len(stream) - length - 1, length))
        self.rng.shuffle(self.starts)
        self.length = length

    def take(self, count: int, length: int) -> Tensor:
        """Return token ids `[count, length + 1]`: row[:-1] is an input, and row[1:] what it should predict."""
        if length != self.length:
            # A change of row length keeps the share of the pass that is left, so no text is favoured.
            self._refill(length)
        rows = []
        for _ in range(count):
            if not self.starts:
                self._refill(length)
            start = self.starts.pop()
            rows.append(self.stream[start : start + length + 1])
        return torch.stack(rows)
