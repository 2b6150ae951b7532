"""Answers that are sent whole, and what they are made of."""

from __future__ import annotations

import random

from actors.core.generation import Event, Token
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import finished

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def any_token(draw: random.Random, index: int, alternatives: int | None) -> Token:
    """Return a token of awkward text, with or without log-probabilities."""
    text = draw.choice(["a", "", "é🙂", '"\\', "\ud83d", "\n\0"])
    if alternatives is None:
        return Token(index, draw.randrange(256), text)
    top = tuple((draw.randrange(256), -draw.random()) for _ in range(alternatives))
    return Token(index, draw.randrange(256), text, TokenLogprobs(-draw.random(), top))


def bulky(count: int, index: int = 0, alternatives: int = 20) -> list[Event]:
    """Return the events of an answer of so many tokens, each with alternatives."""
    draw = random.Random(index)
    tokens: list[Event] = [any_token(draw, index, alternatives) for _ in range(count)]
    return [*tokens, finished(index, tokens=count)]
