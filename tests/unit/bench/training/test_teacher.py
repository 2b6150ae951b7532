"""Texts that the target writes after prompts, many at a time."""

from __future__ import annotations

from tokenizers import Tokenizer

from bench.training.data import end_ids
from bench.training.measure import load_exported
from bench.training.teacher import continue_batch
from runtime.store.resolve import resolve_model


def test_prompts_of_different_lengths_are_continued_as_each_alone() -> None:
    folder = resolve_model(None)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model, ends = load_exported(folder), end_ids(tokenizer)
    prompts = [tokenizer.encode(text).ids for text in ("import os", "def add(first, second):\n    return", "#")]
    together = continue_batch(model, prompts, ends, greedy=True, new=12)
    assert together == [continue_batch(model, [prompt], ends, greedy=True, new=12)[0] for prompt in prompts]
    assert [text[: len(prompt)] for text, prompt in zip(together, prompts, strict=True)] == prompts
