"""Prompts of a known length, the same for the same seed."""

from __future__ import annotations

import random

from bench.client.harness.prompts import PromptMaker, TextScale, code_prompt


def test_prompts_of_ids_have_their_length_and_range() -> None:
    maker = PromptMaker(random.Random(0), range(10, 20))
    prompt = maker.make(500)
    assert isinstance(prompt, tuple)
    assert len(prompt) == 500
    assert set(prompt) == set(range(10, 20))
    assert maker.extend(prompt, 3)[:500] == prompt
    assert len(maker.extend(prompt, 3)) == 503
    assert len(maker.make(0)) == 1


def test_prompts_are_the_same_for_the_same_seed_and_never_repeat() -> None:
    first, again = (PromptMaker(random.Random(5), range(300, 3000)) for _ in range(2))
    prompt = first.make(20)
    assert prompt == again.make(20)
    assert prompt != first.make(20)


def test_text_is_scaled_to_the_server_s_own_count() -> None:
    scale = TextScale.through((32, 74), (256, 522))  # 10 tokens of template, 2 for each word
    assert scale == TextScale(10, 2)
    prompt = PromptMaker(random.Random(0), None, scale).make(110)
    assert isinstance(prompt, str)
    assert len(prompt.split()) == 50
    assert scale.words(3) == 1


def test_code_prompts_differ_from_the_start() -> None:
    assert code_prompt(1)[:4] != code_prompt(2)[:4]
