"""Training against repetition makes what was repeated less likely, and leaves the rest where it was."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor

from bench.corpus import ASSISTANT, USER, Split, render_chat
from bench.training.data import encode
from bench.training.train import Budget
from bench.training.unlikelihood import LEAST_MARKED, PROMPT, PromptSource, UnlikelihoodRun, unlikelihood
from runtime.store.resolve import resolve_model

FILES = ["\n".join(f"def f{i}(self):\n    return {i}\n" for i in range(k, k + 40)) for k in range(3)]
CHATS = [render_chat([(USER, f"Write f{i}."), (ASSISTANT, f"def f{i}(self):\n    return {i}")]) for i in range(8)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(resolve_model(None) / "tokenizer.json"))


@pytest.fixture(scope="module")
def documents(tokenizer: Tokenizer) -> list[list[int]]:
    return encode(tokenizer, Split(FILES, CHATS))


def by_definition(logits: Tensor, tokens: Tensor) -> Tensor:
    chosen = logits.double().softmax(-1).gather(1, tokens[:, None])
    return -(1 - chosen).log().sum()


def test_it_is_the_negative_logarithm_of_what_is_left_for_others() -> None:
    logits = torch.randn(5, 9, generator=torch.Generator().manual_seed(1))
    tokens = torch.tensor([0, 3, 8, 8, 2])
    assert unlikelihood(logits, tokens).item() == pytest.approx(by_definition(logits, tokens).item(), rel=1e-5)


def test_a_token_that_is_all_but_sure_still_has_a_slope() -> None:
    logits = torch.zeros(1, 3)
    logits[0, 1] = 40.0
    logits.requires_grad_()
    loss = unlikelihood(logits, torch.tensor([1]))
    torch.autograd.backward(loss)
    assert loss.item() == pytest.approx(40 - math.log(2), rel=1e-5)
    assert logits.grad is not None
    assert logits.grad[0].tolist() == pytest.approx([-0.5, 1.0, -0.5])


def test_descent_moves_the_token_down_and_the_others_up() -> None:
    logits = torch.randn(1, 6, generator=torch.Generator().manual_seed(2)).requires_grad_()
    before = logits.softmax(-1)[0].tolist()
    torch.autograd.backward(unlikelihood(logits, torch.tensor([4])))
    assert logits.grad is not None
    after = (logits - 0.5 * logits.grad).softmax(-1)[0].tolist()
    assert after[4] < before[4]
    assert all(now > then for i, (now, then) in enumerate(zip(after, before, strict=True)) if i != 4)


def test_prompts_are_short_and_begin_where_a_line_or_a_chat_does(
    documents: list[list[int]], tokenizer: Tokenizer
) -> None:
    prompts = PromptSource(documents, tokenizer, random.Random(1)).take(16)
    assert all(0 < len(prompt) <= PROMPT for prompt in prompts)
    texts = [tokenizer.decode(prompt, skip_special_tokens=False) for prompt in prompts]
    # A break takes the indentation after it along, so a prompt of code begins behind it.
    lines = [line.strip() for file in FILES for line in file.split("\n")]
    assert all(any(line.startswith(text.split("\n")[0]) for line in lines) for text in texts[:8])
    assert all(text.startswith(USER) and text.endswith(f"{ASSISTANT}\n") for text in texts[8:])


def test_a_few_steps_make_a_repeated_passage_less_likely(
    documents: list[list[int]], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    weights = resolve_model(None) / "model.safetensors"
    run = UnlikelihoodRun(weights, documents, tokenizer, Budget(8, 1.0), tmp_path / "target.pt", "cpu", seed=0)
    text = tokenizer.encode("    x = f(a, b)\n" * 4).ids
    marked = text, [False] * (len(text) // 2) + [True] * (len(text) - len(text) // 2)
    logits = run.model(input_ids=torch.tensor([text])).logits[0, len(text) // 2 - 1 : -1].detach()
    expected = by_definition(logits, torch.tensor(text[len(text) // 2 :])).item() / LEAST_MARKED
    penalties = []
    for _ in range(8):
        penalties.append(run.penalise([marked]))
        run.optimiser.step(0.05)
    assert penalties[0] == pytest.approx(expected, rel=1e-3)
    assert penalties[-1] < 0.7 * penalties[0]
