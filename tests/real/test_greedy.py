"""Real models' greedy tokens, in float32 from weights that were expanded, against transformers on the same weights.

Transformers computes each text once, prompt and answer together: where its own likeliest token is another than ours,
ours scores as high to within rounding.
"""

from __future__ import annotations

from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, NamedTuple

import pytest
import torch

from runtime.chat.template import ChatTemplate
from runtime.checkpoint.open import open_checkpoint
from runtime.loading.load import describe_model
from runtime.loading.options import LoadOptions
from runtime.text.tokenizer import Tokenizer
from tests.models.step_driver import Running, generate, open_transformer
from tests.real.references import gemma3_reference, smollm2_reference

pytestmark = pytest.mark.real

TOKENS = 40
NEAR_TIE = 1e-4  # of a log-probability in float32: two tokens that score alike may change places
AT_ONCE = 20  # sequences that share steps

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):\n    ",
    "The three laws of thermodynamics are:\n1.",
    "Q: What is 17 + 25?\nA:",
    "import numpy as np\n\n# Compute the mean of each column\n",
    "SELECT name, COUNT(*) FROM",
    "Die drei größten Städte Deutschlands sind",
    "<html>\n  <head>\n    <title>",
    "2, 3, 5, 7, 11, 13,",
    "日本の首都は",
    "#include <stdio.h>\n\nint main(",
]
QUESTIONS = [
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "What is 17 + 25?",
    "Write a Python function that reverses a string.",
    "Translate to German: Good morning, my friend.",
    "Who wrote Hamlet?",
    "Correct this sentence: She go to school.",
    "Summarise: The quick brown fox jumps over the lazy dog.",
    "Was ist die Hauptstadt von Italien?",
]


class Subject(NamedTuple):
    """A model in cede and in transformers."""

    path: Path
    tokenizer: Tokenizer
    reference: Any

    def prompts(self, long: int) -> list[list[int]]:
        """The plain ones, and one of about `long` tokens."""
        texts = [*PROMPTS, topics["assignment"][: 4 * long]]
        return [self.tokenizer.encode(text) for text in texts]


@pytest.fixture(scope="module")
def small(smollm2: Path) -> Subject:
    return Subject(smollm2, Tokenizer.load(open_checkpoint(smollm2)), smollm2_reference(smollm2))


@pytest.fixture(scope="module")
def windowed(gemma3: Path) -> Subject:
    return Subject(gemma3, Tokenizer.load(open_checkpoint(gemma3)), gemma3_reference(gemma3))


@torch.inference_mode()
def greedy(subject: Subject, prompts: list[list[int]]) -> list[list[int]]:
    """Return what cede generates, some sequences at a time."""
    context = max(map(len, prompts)) + TOKENS
    model = open_transformer(subject.path, slots=AT_ONCE, context=context)
    outputs = []
    for first in range(0, len(prompts), AT_ONCE):
        some = prompts[first : first + AT_ONCE]
        outputs += generate(model, [Running(slot, prompt) for slot, prompt in enumerate(some)], TOKENS)
    return outputs


@torch.inference_mode()
def shortfall(subject: Subject, prompt: list[int], output: list[int]) -> torch.Tensor:
    """By how much each token scores less than transformers' likeliest one: `[tokens]`."""
    logits = subject.reference(torch.tensor([prompt + output[:-1]]), logits_to_keep=len(output)).logits[0]
    scores: torch.Tensor = logits.log_softmax(-1)
    best: torch.Tensor = scores.max(-1).values
    return best - scores[range(len(output)), output]


def assert_greedy(subject: Subject, prompts: list[list[int]], outputs: list[list[int]]) -> None:
    for prompt, output in zip(prompts, outputs, strict=True):
        assert len(output) == TOKENS
        assert shortfall(subject, prompt, output).max() <= NEAR_TIE, subject.tokenizer.decode(prompt + output)


def test_smollm2s_tokens_are_those_of_transformers(small: Subject) -> None:
    prompts = small.prompts(long=200)
    assert_greedy(small, prompts, greedy(small, prompts))


def test_smollm2_answers_as_in_transformers(small: Subject) -> None:
    template = ChatTemplate.load(open_checkpoint(small.path))
    assert template is not None
    chats = [template.render([{"role": "user", "content": question}]) for question in QUESTIONS]
    prompts = [small.tokenizer.encode(chat, add_special_tokens=False) for chat in chats]
    answers = greedy(small, prompts)
    assert_greedy(small, prompts, answers)
    assert "Paris" in small.tokenizer.decode(answers[0])


def test_gemmas_tokens_are_those_of_transformers(windowed: Subject) -> None:
    """The longest prompt is longer than the window."""
    prompts = windowed.prompts(long=700)
    assert len(prompts[-1]) > 512
    assert_greedy(windowed, prompts, greedy(windowed, prompts))


def test_the_ends_of_an_answer_are_known(smollm2: Path, gemma3: Path) -> None:
    def ends(path: Path) -> set[str]:
        served = describe_model(LoadOptions(path), "real")[0]
        return {served.tokenizer.token_text(token_id) for token_id in served.eos_token_ids}

    assert ends(smollm2) == {"<|im_end|>", "<|endoftext|>"}
    assert ends(gemma3) == {"<eos>", "<end_of_turn>"}
