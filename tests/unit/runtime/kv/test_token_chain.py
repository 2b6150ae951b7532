"""Sequences that know the names of their blocks: right, and cheap to compare however long they are."""

from __future__ import annotations

import itertools
import sys
import tracemalloc
from typing import TYPE_CHECKING, TypeVar

import pytest
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.core.slots import SlotTable
from actors.kv.prompts import MAX_PIECE_TOKENS, chains
from runtime.kv import token_chain
from runtime.kv.blocks import BLOCK_TOKENS, block_keys
from runtime.kv.token_chain import TokenChain
from tests.fakes.kv_simulation import ROOT, text
from tests.rows import every_row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from _typeshed import TraceFunction

T = TypeVar("T")
token_lists = st.lists(st.integers(0, 2), max_size=40)
long_lists = st.lists(st.integers(0, 9), max_size=300)


def naive_shared(first: Sequence[int], second: Sequence[int]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


@given(long_lists, st.integers(0, 300), token_lists, token_lists)
@settings(deadline=None)
def test_what_two_chains_share(shared: list[int], cut: int, left: list[int], right: list[int]) -> None:
    first, second = [*shared[:cut], *left], [*shared[:cut], *right]
    one, other = TokenChain(ROOT, first), TokenChain(ROOT, second)
    assert one.shared_with(other) == other.shared_with(one) == naive_shared(first, second)


@every_row("shared", [0, 1, 63, 64, 65, 127, 128, 1000, 4096])
@every_row("longer", [0, 1, 64, 200])
def test_what_chains_share_at_the_edges_of_blocks(shared: int, longer: int) -> None:
    tokens = text(shared, 1)
    one, other = TokenChain(ROOT, [*tokens, *[500] * longer]), TokenChain(ROOT, [*tokens, *[501] * longer])
    assert one.shared_with(other) == shared


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 300)), max_size=20))
@settings(deadline=None)
def test_the_keys_are_always_those_of_the_tokens(changes: list[tuple[bool, int]]) -> None:
    chain, tokens = TokenChain(ROOT), list[int]()
    for number, (grows, size) in enumerate(changes):
        if grows:
            chain.extend(text(size, number))
            tokens += text(size, number)
        else:
            chain.truncate(size)
            del tokens[size:]
        chain.check_integrity()
        head = chain.head(size)
        head.check_integrity()
        assert (list(chain), len(chain)) == (tokens, len(tokens))
        assert chain == tokens
        assert head == tokens[:size]
        assert list(chain.keys) == block_keys(ROOT, tokens)
        assert [chain.parent(block) for block in range(len(chain.keys))] == [ROOT, *chain.keys][:-1]


# --- what it costs, by what is looked at ------------------------------------------------------------------------------


def cost_of(call: Callable[[], T]) -> tuple[T, int, int]:
    """Return what a call returns, how many lines of `TokenChain` it runs, and its bytes of memory at their most."""
    lines = 0

    def count(frame: FrameType, event: str, _argument: object) -> TraceFunction | None:
        nonlocal lines
        lines += event == "line"
        return count if frame.f_code.co_filename == token_chain.__file__ else None

    before = sys.gettrace()
    tracemalloc.start()
    sys.settrace(count)
    try:
        result = call()
    finally:
        sys.settrace(before)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return result, lines, most


@pytest.mark.parametrize(("slots", "length"), [(64, 40_000), (4, 131_000)])
@pytest.mark.parametrize("shares", ["all", "half", "nothing"])
def test_looking_for_a_prefix_looks_at_little_however_long_it_is(slots: int, length: int, shares: str) -> None:
    table = SlotTable(slots, length + 10, root=ROOT)
    tokens = text(length, 1)
    resident = {"all": tokens, "half": [*tokens[: length // 2], *text(length - length // 2, 2)], "nothing": tokens[1:]}
    chain = TokenChain(ROOT, resident[shares])
    for slot in range(slots):
        table.commit(table.slot(slot), chain)
    prompt = TokenChain(ROOT, [*tokens, 7])
    (source, shared), lines, most = cost_of(lambda: table.longest_live_prefix(prompt, limit=length, besides=None))
    assert source is not None
    assert shared == {"all": length, "half": length // 2, "nothing": 0}[shares]
    per_slot = 5 * (length // BLOCK_TOKENS).bit_length() + 2 * BLOCK_TOKENS + 20
    assert 0 < lines <= slots * per_slot, "it costs more the longer the sequences are"
    assert most < 20_000, "the sequences are copied"
    granted, lines, _ = cost_of(lambda: table.grant(("a", 0), prompt))
    assert granted is not None
    assert granted.before is not None
    assert lines <= 2 * slots * per_slot


async def test_the_names_of_long_prompts_are_made_in_pieces() -> None:
    turns = 0

    async def neighbour() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    long, short = tuple(text(5 * MAX_PIECE_TOKENS + 3, 1)), tuple(text(100, 2))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(neighbour)
        made = await chains(ROOT, [long, short, long])
        assert turns >= 3
        nursery.cancel_scope.cancel()
    assert [list(chain.keys) for chain in made] == [block_keys(ROOT, tokens) for tokens in (long, short, long)]
    assert made[0] is made[2]


async def test_the_names_of_short_prompts_take_no_checkpoint() -> None:
    with trio.testing.assert_no_checkpoints():
        await chains(ROOT, [tuple(text(1000, seed)) for seed in range(16)])
