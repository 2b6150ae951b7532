"""The prompts that a server is asked."""

from __future__ import annotations

from bench.engine.memory.lengths import Prompts


def test_prompts_are_the_same_for_a_seed_and_each_is_asked_once() -> None:
    prompts, again = Prompts(50, 30, seed=1), Prompts(50, 30, seed=1)
    first = [next(prompts) for _ in range(20)]
    others = list(prompts)
    assert first + others == list(again)
    assert len(first + others) == prompts.asked == 50
    assert sum(map(len, first + others)) == prompts.tokens
    assert {len(prompt) for prompt in first + others} <= set(range(1, 31))
    assert list(Prompts(50, 30, seed=2)) != first + others
