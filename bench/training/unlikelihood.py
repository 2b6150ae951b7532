"""Training against repetition: unlikelihood of what the model's own greedy text repeats (arXiv 1908.04319).

Each round the target continues prompts greedily.  Where a continuation gives back a passage of its own, the passage's
tokens are made less likely, by -log(1 - p).  On the corpus beside it the target is held to what it was (forward KL),
which keeps what it has learned, and has less noise than the corpus itself.  The paper penalises 4-grams; code repeats
those with good reason, so here a passage is longer.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_model
from torch import Tensor
from torch.nn import functional

from bench.training.data import end_ids
from bench.training.distil import divergence
from bench.training.loops import repeated
from bench.training.models import build_target
from bench.training.teacher import chat_prompt, continue_batch
from bench.training.train import TargetRun, backward_through_head

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer

    from bench.training.train import Budget

    Marked = tuple[list[int], list[bool]]
    """A text, and for each of its tokens whether it is to become less likely."""

PASSAGE = 10
"""A passage of so many tokens is a repetition: about a line of code."""

PROMPT = 48
"""The longest prompt.  Those of code have any length up to it."""

NEW_TOKENS = 112
ROW = PROMPT + NEW_TOKENS
WRITTEN = 64
"""Texts in a round, half of them after code and half after chats."""

PENALISED = 16
"""Texts in a step."""

LEAST_MARKED = 512
"""Penalties are divided by the number of repeated tokens, or by this if there are fewer: the last few should not weigh
more."""

RATE = 0.03
"""Share of the learning rates of a first training."""

CORPUS_ROWS = (4, 256)
"""Rows of the corpus in a step, and their length."""


def unlikelihood(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the sum of -log(1 - p) over tokens `[rows]`, p being what logits `[rows, vocabulary]` give them."""
    chosen = logits.gather(1, tokens[:, None])
    others = logits.scatter(1, tokens[:, None], -torch.inf).logsumexp(1, keepdim=True)
    # 1 - p is the share of the others: sigmoid(others - chosen), which keeps its precision where p is near one.
    return -functional.logsigmoid(others - chosen).sum()


class PromptSource:
    """Prompts of the training documents: lines of code from random places, and chats up to the reply."""

    def __init__(self, documents: list[list[int]], tokenizer: Tokenizer, rng: random.Random) -> None:
        chats = [(document, chat_prompt(document, tokenizer)) for document in documents]
        self.files = [document for document, chat in chats if chat is None and len(document) > PROMPT]
        self.chats = [chat for _, chat in chats if chat is not None and len(chat) <= PROMPT]
        self.breaks = {token for piece, token in tokenizer.get_vocab().items() if piece.startswith("Ċ")}
        self.rng = rng

    def take(self, count: int) -> list[list[int]]:
        """Return so many prompts, one half of each kind."""
        return [self._code() for _ in range(count // 2)] + self.rng.sample(self.chats, count - count // 2)

    def _code(self) -> list[int]:
        document = self.rng.choice(self.files)
        start = self.rng.randrange(len(document) - PROMPT)
        while start and document[start - 1] not in self.breaks:
            start -= 1
        return document[start : start + self.rng.randint(1, PROMPT)]


class UnlikelihoodRun(TargetRun):
    """The training of a target, from the weights of an earlier run, against repetition.

    Attributes:
        share: of tokens that the last round's texts repeat.
    """

    steps_per_report = 50

    def __init__(
        self,
        weights: Path,
        documents: list[list[int]],
        tokenizer: Tokenizer,
        budget: Budget,
        file: Path,
        device: str,
        seed: int,
    ) -> None:
        super().__init__(documents, budget, file, device, seed)
        self.before = build_target().to(device).eval()
        load_model(self.before, weights)
        if not self.has_begun:
            self.begin_with(weights)
        self.prompts = PromptSource(documents, tokenizer, random.Random(seed + self.budget.step))
        self.ends = end_ids(tokenizer)
        self.waiting: list[Marked] = []
        self.share = 0.0

    def remark(self) -> str:
        """Return what its texts repeat, for the line of progress."""
        return f" repeated {self.share:.1%}"

    def write(self) -> list[Marked]:
        """Let the target continue prompts greedily, and return the texts that repeat themselves, and where they do."""
        prompts = self.prompts.take(WRITTEN)
        with torch.autocast(self.device, enabled=False):
            self.model.eval()
            texts = continue_batch(self.model, prompts, self.ends, greedy=True, new=NEW_TOKENS)
            self.model.train()
        marks = [repeated(text[len(prompt) :], PASSAGE) for prompt, text in zip(prompts, texts, strict=True)]
        self.share = sum(map(sum, marks)) / sum(map(len, marks))
        return [
            (text, [False] * len(prompt) + marked)
            for prompt, text, marked in zip(prompts, texts, marks, strict=True)
            if any(marked)
        ]

    def penalise(self, texts: list[Marked]) -> float:
        """Accumulate the gradients of the unlikelihood of what these texts repeat, and return it."""
        rows = torch.full((PENALISED, ROW), self.ends[0], device=self.device)
        marks = torch.zeros_like(rows, dtype=torch.bool)
        for i, (text, mark) in enumerate(texts):
            rows[i, : len(text)] = torch.tensor(text, device=self.device)
            marks[i, : len(text)] = torch.tensor(mark, device=self.device)
        hidden = self.body(input_ids=rows[:, :-1], use_cache=False).last_hidden_state
        chosen = marks[:, 1:]

        def loss_of(chunk: Tensor, tokens: Tensor) -> Tensor:
            return unlikelihood(functional.linear(chunk, self.model.lm_head.weight).float(), tokens)

        share = 1 / max(LEAST_MARKED, int(chosen.sum()))
        return backward_through_head(hidden[chosen], rows[:, 1:][chosen], loss_of, share)

    def stay(self, rows: Tensor) -> float:
        """Accumulate the gradients of the mean KL from the target as it was, over `[rows, length]`, and return it."""
        with torch.no_grad():
            before = self.before.model(input_ids=rows, use_cache=False).last_hidden_state.flatten(0, 1)
        hidden = self.body(input_ids=rows, use_cache=False).last_hidden_state.flatten(0, 1)
        head, head_before = self.model.lm_head.weight, self.before.lm_head.weight.detach()
        return backward_through_head(
            hidden, before, lambda now, then: divergence(now, head, then, head_before), 1 / len(hidden)
        )

    def step(self) -> float:
        """Make one update on texts of its own and on rows of the corpus, and return the mean KL on the corpus."""
        begun = time.monotonic()
        if not self.waiting:
            self.waiting = self.write()
        texts, self.waiting = self.waiting[:PENALISED], self.waiting[PENALISED:]
        if texts:
            self.penalise(texts)
        count, length = CORPUS_ROWS
        kl = self.stay(self.rows.take(count, length)[:, :-1].to(self.device))
        self.tokens += count * length
        self.optimiser.step(RATE * self.budget.factor)
        self.budget.step += 1
        self.budget.seconds += time.monotonic() - begun
        return kl
