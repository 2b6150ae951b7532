"""Prompts of a given number of tokens, as token ids or as text, that no server has seen before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import random

Prompt: TypeAlias = "tuple[int, ...] | str"

# Words that are one token in common vocabularies.
WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work number night point home water room mother area money "
    "story fact month lot right study book eye job word business issue side kind head house service friend father"
).split()

# A text that a language model, and so its drafter, can predict.
CODE = '''\
class Stack:
    """Last in, first out."""

    def __init__(self):
        self._items = []

    def push(self, item):
        self._items.append(item)

    def pop(self):
        if not self._items:
            raise IndexError("pop from an empty stack")
        return self._items.pop()

    def __len__(self):
        return len(self._items)


class Queue:
    """First in, first out."""

    def __init__(self):
        self._items = []

    def push(self, item):
'''


@dataclass(frozen=True, slots=True)
class TextScale:
    """The tokens that a server counts for a text: `overhead + tokens_per_word * words`."""

    overhead: float = 0.0
    tokens_per_word: float = 1.0

    def words(self, tokens: int) -> int:
        """Return the number of words that make about `tokens` tokens; at least one."""
        return max(1, round((tokens - self.overhead) / self.tokens_per_word))

    @classmethod
    def through(cls, few: tuple[int, int], many: tuple[int, int]) -> TextScale:
        """Return the scale that fits two pairs of words sent and tokens counted."""
        slope = (many[1] - few[1]) / (many[0] - few[0])
        return cls(few[1] - slope * few[0], slope)


class PromptMaker:
    """Draws prompts at random.  Prompts of different seeds share no prefix that is worth caching.

    Args:
        rng: a different one for each target and round, because two targets may be the same server.
        token_ids: the range to draw token ids from; None for prompts of text.
        scale: of text.
    """

    def __init__(self, rng: random.Random, token_ids: range | None, scale: TextScale | None = None) -> None:
        self._rng = rng
        self._token_ids = token_ids
        self._scale = scale or TextScale()

    def make(self, tokens: int) -> Prompt:
        """Return a new prompt of `tokens` tokens, or of about as many if it is text."""
        if self._token_ids is None:
            return self.text(self._scale.words(tokens))
        return tuple(self._rng.choices(self._token_ids, k=max(1, tokens)))

    def text(self, words: int) -> str:
        """Return a new prompt of `words` words."""
        return " ".join(self._rng.choices(WORDS, k=words))

    def extend(self, prompt: Prompt, tokens: int = 1) -> Prompt:
        """Return `prompt` with about `tokens` more tokens at its end."""
        if isinstance(prompt, str):
            return f"{prompt} {self.text(tokens)}"
        assert self._token_ids is not None
        return (*prompt, *self._rng.choices(self._token_ids, k=tokens))


def code_prompt(variant: int) -> str:
    """Return a text that a model of code continues predictably.  Variants differ from their first line on."""
    return f"# {variant}: two containers\n{CODE}"
