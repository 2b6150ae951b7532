"""Training of the target on next-token prediction."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from safetensors.torch import load_model
from torch import Tensor
from torch.nn import functional

from bench.training.data import Rows
from bench.training.models import build_target
from bench.training.optimiser import Optimiser

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from transformers import Qwen3ForCausalLM

TOKENS_SEEN = "tokens_seen"
"""In the metadata of exported weights."""

HEAD_ROWS = 1024  # logits of so many rows at a time stay inside a CPU's last-level cache
TOKENS_PER_STEP = 2048  # small: far below the critical batch size at losses like these, so steps are what counts
# (from this share of the budget on, row length, rows in one backward pass)
PHASES = ((0.0, 256, 4), (0.40, 512, 4), (0.88, 2048, 1), (0.97, 4096, 1))


@dataclass
class Budget:
    """The progress of a run, by steps if their number is given (so that it can be repeated), else by minutes.

    Attributes:
        steps: of the whole run; None to go by minutes.
        minutes: of training time of the whole run.
        step: steps done.
        seconds: of training time done.
    """

    steps: int | None
    minutes: float
    step: int = 0
    seconds: float = 0.0

    @property
    def progress(self) -> float:
        """Share of the run that is done."""
        return self.step / self.steps if self.steps else self.seconds / (60 * self.minutes)

    @property
    def factor(self) -> float:
        """Share of the peak learning rate: a short warm-up, constant for a third, then linear to a hundredth."""
        warm = min(1.0, (self.step + 1) / 40)
        return warm * max(0.01, min(1.0, (1 - self.progress) / 0.67))


def phase_of(progress: float) -> tuple[int, int]:
    """Return the row length and the rows in one backward pass at this point of the run."""
    length, rows = PHASES[0][1:]
    for start, phase_length, phase_rows in PHASES:
        if progress >= start:
            length, rows = phase_length, phase_rows
    return length, rows


def backward_through_head(
    hidden: Tensor, target_rows: Tensor, loss_of: Callable[[Tensor, Tensor], Tensor], share: float
) -> float:
    """Back-propagate a sum of losses part by part, so that the logits never exist all at once, and return the loss.

    Args:
        hidden: last hidden states  # [rows, width].
        target_rows: what ``loss_of`` compares them with  # [rows, ...].
        loss_of: the loss of some rows.
        share: a factor for the loss.
    """
    leaf = hidden.detach().requires_grad_()
    total = 0.0
    for rows, wanted in zip(torch.split(leaf, HEAD_ROWS), torch.split(target_rows, HEAD_ROWS), strict=True):
        loss = loss_of(rows, wanted) * share
        torch.autograd.backward(loss)
        total += loss.item()
    torch.autograd.backward(hidden, leaf.grad)
    return total


def language_loss(model: Qwen3ForCausalLM, body: Qwen3ForCausalLM, rows: Tensor, share: float) -> float:
    """Return the mean cross-entropy over ``rows`` `[count, length + 1]` times ``share``, and accumulate gradients."""
    wanted = rows[:, 1:].reshape(-1)
    hidden = body(input_ids=rows[:, :-1], use_cache=False).last_hidden_state.flatten(0, 1)

    def loss_of(chunk: Tensor, tokens: Tensor) -> Tensor:
        logits = functional.linear(chunk, model.lm_head.weight)
        return functional.cross_entropy(logits, tokens, reduction="sum")

    return backward_through_head(hidden, wanted, loss_of, share / wanted.numel())


@torch.no_grad()
def held_out_loss(model: Qwen3ForCausalLM, documents: list[list[int]], length: int = 512, limit: int = 10**9) -> float:
    """Return mean nats per token over documents, joined in order and cut into rows, each without context."""
    stream = torch.tensor([token for document in documents for token in document][:limit])
    device = model.lm_head.weight.device
    total, count = 0.0, 0
    for start in range(0, len(stream) - 1, length):
        row = stream[start : start + length + 1].to(device)[None]
        logits = model(input_ids=row[:, :-1], use_cache=False).logits[0]
        total += functional.cross_entropy(logits, row[0, 1:], reduction="sum").item()
        count += row.shape[1] - 1
    return total / count


def load_trained(file: Path, device: str) -> Qwen3ForCausalLM:
    """Load the target as a run last saved it, for evaluation."""
    model = build_target().to(device)
    model.load_state_dict(torch.load(file, weights_only=False)["model"])
    return model.eval()


class TargetRun:
    """The target with its optimiser, data position and budget; saved to and resumed from one file.

    Attributes:
        tokens: that the weights have seen.
        tokens_before: those of an earlier run, with whose weights this one began.
        steps_per_report: steps between two saves.
    """

    steps_per_report = 100

    def __init__(self, documents: list[list[int]], budget: Budget, file: Path, device: str, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = build_target().to(device)
        self.body: Any = self.model.model
        self.optimiser = Optimiser(self.model, matrix_rate=0.02, other_rate=0.004)
        self.rows = Rows(documents, seed)
        self.budget, self.file, self.device = budget, file, device
        self.tokens = self.tokens_before = 0
        if file.exists():
            self._resume()

    @property
    def has_begun(self) -> bool:
        """Return whether any step was made."""
        return self.budget.step > 0

    def begin_with(self, weights: Path) -> None:
        """Take the weights of an earlier run, a safetensors file as it was exported; the optimiser begins anew."""
        load_model(self.model, weights)
        with safe_open(weights, "pt") as file:
            self.tokens = self.tokens_before = int((file.metadata() or {}).get(TOKENS_SEEN, 0))

    def _resume(self) -> None:
        state = torch.load(self.file, weights_only=False)  # written by `save`: optimiser state and random state
        self.model.load_state_dict(state["model"])
        self.optimiser.restore(state["optimiser"])
        self.rows.__dict__.update(state["rows"], documents=self.rows.documents)
        self.budget.step, self.budget.seconds = state["step"], state["seconds"]
        self.tokens, self.tokens_before = state["tokens"], state["tokens_before"]

    def save(self) -> None:
        """Save everything that is needed to resume."""
        rows = {key: value for key, value in self.rows.__dict__.items() if key != "documents"}
        state = {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state(),
            "rows": rows,
            "step": self.budget.step,
            "seconds": self.budget.seconds,
            "tokens": self.tokens,
            "tokens_before": self.tokens_before,
        }
        partial = self.file.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.file)

    def step(self) -> float:
        """Make one update on ``TOKENS_PER_STEP`` tokens, and return the mean loss."""
        begun = time.monotonic()
        length, count = phase_of(self.budget.progress)
        passes = max(1, TOKENS_PER_STEP // (length * count))
        loss = 0.0
        for _ in range(passes):
            batch = self.rows.take(count, length).to(self.device)
            loss += language_loss(self.model, self.body, batch, 1 / passes)
            self.tokens += count * length
        self.optimiser.step(self.budget.factor)
        self.budget.step += 1
        self.budget.seconds += time.monotonic() - begun
        return loss

    def remark(self) -> str:
        """Return what else there is to say in a line of progress."""
        return ""

    def run(self, held_out: list[list[int]], until: float = 1.0, compiled: bool = False) -> None:
        """Train until ``until`` of the budget, with a line of progress and a save every so many steps."""
        if compiled:
            self.body = torch.compile(self.model.model)
        self.model.train()
        average = math.nan
        while self.budget.progress < until:
            loss = self.step()
            average = loss if math.isnan(average) else 0.95 * average + 0.05 * loss
            if self.budget.step % self.steps_per_report == 0:
                self.save()
                held = held_out_loss(self.model, held_out, limit=16384)
                speed = (self.tokens - self.tokens_before) / self.budget.seconds
                print(
                    f"step {self.budget.step} {self.budget.progress:.1%} tokens {self.tokens:,} "
                    f"loss {average:.3f} held-out {held:.3f} {speed:.0f} tokens/s{self.remark()}",
                    flush=True,
                )
        self.save()
