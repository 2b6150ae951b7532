"""What cancelled generations leave, and who is served it: by content, and each token once."""

from __future__ import annotations

from random import Random

import pytest

from actors.kv.leftovers import MOST_ALIKE, Leftovers
from runtime.kv.blocks import owner_root
from runtime.kv.token_chain import TokenChain
from runtime.ownership import TaskOwner
from tests.fakes.kv_simulation import ROOT, text

TOKENS = text(300, 1)


def chain(*tokens: int, root: bytes = ROOT) -> TokenChain:
    """A sequence."""
    return TokenChain(root, tokens)


def left(tokens: TokenChain, *ranges: tuple[int, int]) -> Leftovers:
    """What a generation has left that computed these parts of a sequence."""
    leftovers = Leftovers(TaskOwner())
    leftovers.leave(tokens, ranges)
    return leftovers


@pytest.mark.parametrize(
    ("first", "end", "served"), [(0, 300, 150), (0, 51, 1), (60, 70, 10), (199, 300, 1), (0, 50, 0), (200, 300, 0)]
)
async def test_what_was_computed_and_left_is_served_again(first: int, end: int, served: int) -> None:
    leftovers = left(chain(*TOKENS), (50, 200))
    assert len(leftovers) == 150
    leftovers.take(chain(*TOKENS), first, end)
    assert (leftovers.served, len(leftovers)) == (served, 150 - served)


async def test_each_token_is_counted_once() -> None:
    leftovers = left(chain(*TOKENS), (0, 200))
    for end in (10, 100, 100, 300, 300):
        leftovers.take(chain(*TOKENS), 0, end)
    assert (leftovers.served, len(leftovers)) == (200, 0)


async def test_a_prompt_that_goes_on_differently_is_served_what_is_the_same() -> None:
    leftovers = left(chain(*TOKENS[:100]), (0, 100))
    leftovers.take(chain(*TOKENS[:80], -1 % 2**32, *TOKENS[81:]), 0, 100)
    assert leftovers.served == 80
    leftovers.take(chain(*TOKENS), 0, 300)
    assert leftovers.served == 100


async def test_what_is_computed_again_was_not_served() -> None:
    leftovers = left(chain(*TOKENS), (0, 200))
    leftovers.forget(chain(*TOKENS), 30, 150)
    leftovers.take(chain(*TOKENS), 0, 300)
    assert leftovers.served == 30 + 50


async def test_the_same_left_twice_counts_once() -> None:
    leftovers = left(chain(*TOKENS), (0, 100))
    leftovers.leave(chain(*TOKENS), [(60, 120)])
    leftovers.take(chain(*TOKENS), 0, 300)
    assert leftovers.served == 120


async def test_what_was_trimmed_away_is_not_left() -> None:
    leftovers = left(chain(*TOKENS[:90]), (0, 70), (80, 100))
    assert len(leftovers) == 70 + 10


async def test_another_owner_is_served_nothing_of_it() -> None:
    leftovers = left(chain(*TOKENS, root=owner_root(ROOT, "ann")), (0, 100))
    leftovers.take(chain(*TOKENS, root=owner_root(ROOT, "ben")), 0, 300)
    assert leftovers.served == 0


async def test_the_newest_are_remembered() -> None:
    leftovers = Leftovers(TaskOwner(), capacity=4)
    for number in range(6):
        leftovers.leave(chain(number, *TOKENS), [(64, 128)])
    assert len(leftovers) == 4 * 64
    leftovers.take(chain(0, *TOKENS), 0, 300)
    leftovers.take(chain(5, *TOKENS), 0, 300)
    assert leftovers.served == 64


async def test_of_many_that_begin_alike_the_newest_are_remembered() -> None:
    leftovers = Leftovers(TaskOwner())
    for number in range(MOST_ALIKE + 1):
        leftovers.leave(chain(7, number), [(1, 2)])
    leftovers.take(chain(7, 0), 1, 2)
    assert (leftovers.served, len(leftovers)) == (0, MOST_ALIKE)
    leftovers.take(chain(7, MOST_ALIKE), 1, 2)
    assert leftovers.served == 1


async def test_whatever_is_left_taken_and_computed_it_is_what_a_set_of_prefixes_says() -> None:
    dice = Random(5)
    for _ in range(200):
        leftovers, prefixes, served = Leftovers(TaskOwner()), set[tuple[int, ...]](), 0
        for _ in range(30):
            tokens = [dice.choice([1, 1, 1, 2]) for _ in range(dice.randint(1, 150))]
            first, end = sorted(dice.choices(range(len(tokens) + 1), k=2))
            meant = {tuple(tokens[:place]) for place in range(first + 1, end + 1)}
            match dice.randrange(3):
                case 0:
                    leftovers.leave(chain(*tokens), [(first, end)])
                    prefixes |= meant
                case 1:
                    leftovers.take(chain(*tokens), first, end)
                    served += len(prefixes & meant)
                    prefixes -= meant
                case _:
                    leftovers.forget(chain(*tokens), first, end)
                    prefixes -= meant
            assert (leftovers.served, len(leftovers)) == (served, len(prefixes))
