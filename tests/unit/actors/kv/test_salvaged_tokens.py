"""Salvaged tokens: what cancelled generations leave, and who is served it: by content, and each token once."""

from __future__ import annotations

from random import Random

import pytest

from actors.kv.salvaged_tokens import MOST_ALIKE, SalvagedTokens
from runtime.common.ownership import TaskOwner
from runtime.kv.blocks import owner_root
from runtime.kv.token_chain import TokenChain
from tests.fakes.kv_simulation import ROOT, text

TOKENS = text(300, 1)


def chain(*tokens: int, root: bytes = ROOT) -> TokenChain:
    """A sequence."""
    return TokenChain(root, tokens)


def left(tokens: TokenChain, *ranges: tuple[int, int]) -> SalvagedTokens:
    """Return what a generation has left that computed these parts of a sequence."""
    salvaged = SalvagedTokens(TaskOwner())
    salvaged.leave(tokens, ranges)
    return salvaged


@pytest.mark.parametrize(
    ("first", "end", "served"), [(0, 300, 150), (0, 51, 1), (60, 70, 10), (199, 300, 1), (0, 50, 0), (200, 300, 0)]
)
async def test_what_was_computed_and_left_is_served_again(first: int, end: int, served: int) -> None:
    salvaged = left(chain(*TOKENS), (50, 200))
    assert len(salvaged) == 150
    salvaged.take(chain(*TOKENS), first, end)
    assert (salvaged.served, len(salvaged)) == (served, 150 - served)


async def test_each_token_is_counted_once() -> None:
    salvaged = left(chain(*TOKENS), (0, 200))
    for end in (10, 100, 100, 300, 300):
        salvaged.take(chain(*TOKENS), 0, end)
    assert (salvaged.served, len(salvaged)) == (200, 0)


async def test_a_prompt_that_goes_on_differently_is_served_what_is_the_same() -> None:
    salvaged = left(chain(*TOKENS[:100]), (0, 100))
    salvaged.take(chain(*TOKENS[:80], -1 % 2**32, *TOKENS[81:]), 0, 100)
    assert salvaged.served == 80
    salvaged.take(chain(*TOKENS), 0, 300)
    assert salvaged.served == 100


async def test_what_is_computed_again_was_not_served() -> None:
    salvaged = left(chain(*TOKENS), (0, 200))
    salvaged.forget(chain(*TOKENS), 30, 150)
    salvaged.take(chain(*TOKENS), 0, 300)
    assert salvaged.served == 30 + 50


async def test_the_same_left_twice_counts_once() -> None:
    salvaged = left(chain(*TOKENS), (0, 100))
    salvaged.leave(chain(*TOKENS), [(60, 120)])
    salvaged.take(chain(*TOKENS), 0, 300)
    assert salvaged.served == 120


async def test_what_was_trimmed_away_is_not_left() -> None:
    salvaged = left(chain(*TOKENS[:90]), (0, 70), (80, 100))
    assert len(salvaged) == 70 + 10


async def test_another_owner_is_served_nothing_of_it() -> None:
    salvaged = left(chain(*TOKENS, root=owner_root(ROOT, "ann")), (0, 100))
    salvaged.take(chain(*TOKENS, root=owner_root(ROOT, "ben")), 0, 300)
    assert salvaged.served == 0


async def test_the_newest_are_remembered() -> None:
    salvaged = SalvagedTokens(TaskOwner(), capacity=4)
    for number in range(6):
        salvaged.leave(chain(number, *TOKENS), [(64, 128)])
    assert len(salvaged) == 4 * 64
    salvaged.take(chain(0, *TOKENS), 0, 300)
    salvaged.take(chain(5, *TOKENS), 0, 300)
    assert salvaged.served == 64


async def test_of_many_that_begin_alike_the_newest_are_remembered() -> None:
    salvaged = SalvagedTokens(TaskOwner())
    for number in range(MOST_ALIKE + 1):
        salvaged.leave(chain(7, number), [(1, 2)])
    salvaged.take(chain(7, 0), 1, 2)
    assert (salvaged.served, len(salvaged)) == (0, MOST_ALIKE)
    salvaged.take(chain(7, MOST_ALIKE), 1, 2)
    assert salvaged.served == 1


async def test_whatever_is_left_taken_and_computed_it_is_what_a_set_of_prefixes_says() -> None:
    dice = Random(5)
    for _ in range(200):
        salvaged, prefixes, served = SalvagedTokens(TaskOwner()), set[tuple[int, ...]](), 0
        for _ in range(30):
            tokens = [dice.choice([1, 1, 1, 2]) for _ in range(dice.randint(1, 150))]
            first, end = sorted(dice.choices(range(len(tokens) + 1), k=2))
            meant = {tuple(tokens[:place]) for place in range(first + 1, end + 1)}
            match dice.randrange(3):
                case 0:
                    salvaged.leave(chain(*tokens), [(first, end)])
                    prefixes |= meant
                case 1:
                    salvaged.take(chain(*tokens), first, end)
                    served += len(prefixes & meant)
                    prefixes -= meant
                case _:
                    salvaged.forget(chain(*tokens), first, end)
                    prefixes -= meant
            assert (salvaged.served, len(salvaged)) == (served, len(prefixes))
