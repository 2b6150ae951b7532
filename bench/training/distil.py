"""Training of the draft and of the MTP module against the target's distribution (forward KL)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, load_model
from torch import Tensor
from torch.nn import functional

from bench.training.models import MtpModule, build_draft
from bench.training.optimiser import Optimiser
from bench.training.train import backward_through_head

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from transformers import Qwen3ForCausalLM

    from bench.training.teacher import Lessons

    Divergence = Callable[[Tensor, Tensor], Tensor]
    MtpForward = Callable[[Tensor, Tensor], Tensor]

ROWS_PER_STEP = 4
OWN_OUTPUT_SHARE = 0.5
"""Share of rows whose hidden state is the MTP module's own, in the second pass."""


def divergence(student: Tensor, student_head: Tensor, teacher: Tensor, teacher_head: Tensor) -> Tensor:
    """Return the sum over rows of KL(teacher || student).

    Args:
        student: last hidden states `[rows, width]`.
        student_head: the student's head `[vocabulary, width]`.
        teacher: last hidden states of the teacher.
        teacher_head: the teacher's head.
    """
    log_student = functional.linear(student, student_head).log_softmax(-1)
    log_teacher = functional.linear(teacher, teacher_head).log_softmax(-1)
    return functional.kl_div(log_student, log_teacher, reduction="sum", log_target=True)


def draft_loss(body: Any, tokens: Tensor, hidden: Tensor, diverge: Divergence) -> float:  # noqa: ANN401 - compiled
    """Return the mean KL of the draft to the target over ``tokens`` `[rows, length + 1]`, and accumulate gradients."""
    student = body(input_ids=tokens[:, :-1], use_cache=False).last_hidden_state.flatten(0, 1)
    return backward_through_head(student, hidden.flatten(0, 1), diverge, 1 / len(student))


def mtp_loss(module: MtpForward, head: Tensor, tokens: Tensor, hidden: Tensor, diverge: Divergence) -> float:
    """Return the mean KL over two passes: on the target's hidden states, then with half of them the module's own.

    Row t stands for token t+2, whose target distribution comes from the hidden state at t+1. In a chained draft the
    module's output at t takes the place of the hidden state at t+1, which is what the second pass trains.
    """
    embedded = functional.embedding(tokens[:, 1:-1], head)
    first = module(hidden[:, :-1], embedded)
    shifted = torch.cat([hidden[:, :1], first[:, :-1]], dim=1)
    own = torch.rand(hidden.shape[0], hidden.shape[1] - 1, 1, device=hidden.device) < OWN_OUTPUT_SHARE
    second = module(torch.where(own, shifted, hidden[:, :-1]), embedded)
    student = torch.cat([first, second]).flatten(0, 1)
    teacher = hidden[:, 1:].repeat(2, 1, 1).flatten(0, 1)
    return backward_through_head(student, teacher, diverge, 1 / len(teacher))


def train_on_lessons(
    model: torch.nn.Module,
    optimiser: Optimiser,
    lessons: Lessons,
    loss_of: Callable[[Tensor, Tensor], float],
    minutes: float,
    device: str,
) -> int:
    """Train on the lessons in random order until the time is over, and return the number of tokens seen."""
    model.train()
    begun, step, seen, average = time.monotonic(), 0, 0, 0.0
    order = torch.empty(0, dtype=torch.long)
    while (progress := (time.monotonic() - begun) / (60 * minutes)) < 1:
        if len(order) < ROWS_PER_STEP:
            order = torch.randperm(len(lessons.tokens))
        chosen, order = order[:ROWS_PER_STEP], order[ROWS_PER_STEP:]
        tokens = lessons.tokens[chosen].to(device)
        hidden = lessons.hidden[chosen].to(device, torch.float32)
        loss = loss_of(tokens, hidden)
        seen += hidden.shape[0] * hidden.shape[1]
        optimiser.step(min(1.0, (step + 1) / 30) * max(0.01, min(1.0, (1 - progress) / 0.67)))
        step += 1
        average = loss if step == 1 else 0.95 * average + 0.05 * loss
        if step % 50 == 0:
            speed = seen / (time.monotonic() - begun)
            print(f"step {step} {progress:.1%} tokens {seen:,} KL {average:.3f} {speed:.0f} tokens/s", flush=True)
    return seen


@torch.no_grad()
def inherit_embedding(draft: Qwen3ForCausalLM, target: Qwen3ForCausalLM) -> None:
    """Start the draft's tied embedding as the target's, projected on its principal directions.

    The draft then only has to find the target's hidden state in fewer dimensions. Learning 4096 embeddings from
    nothing would take more text than there is time for.
    """
    head = target.lm_head.weight  # [vocabulary, target width]
    width = draft.lm_head.weight.shape[1]
    directions = torch.linalg.svd(head, full_matrices=False).Vh[:width]  # [width, target width]
    draft.lm_head.weight.copy_(head @ directions.T)
    gain = target.model.norm.weight.square().mean().sqrt()
    draft.model.norm.weight.fill_(float(gain) * (head.shape[1] / width) ** 0.5)


def train_draft(
    target: Qwen3ForCausalLM,
    lessons: Lessons,
    minutes: float,
    device: str,
    seed: int,
    compiled: bool,
    weights: Path | None = None,
) -> tuple[Qwen3ForCausalLM, int]:
    """Train a draft, from the exported `weights` if they are given, and return it with the number of tokens seen."""
    torch.manual_seed(seed)
    draft = build_draft().to(device)
    if weights is None:
        inherit_embedding(draft, target)
    else:
        load_model(draft, weights)
    head = target.lm_head.weight.detach()
    body: Any = torch.compile(draft.model) if compiled else draft.model
    measure = torch.compile(divergence) if compiled else divergence
    optimiser = Optimiser(draft, matrix_rate=0.02, other_rate=0.002)

    def loss_of(tokens: Tensor, hidden: Tensor) -> float:
        return draft_loss(body, tokens, hidden, lambda rows, taught: measure(rows, draft.lm_head.weight, taught, head))

    return draft, train_on_lessons(draft, optimiser, lessons, loss_of, minutes, device)


def train_mtp(
    target: Qwen3ForCausalLM,
    lessons: Lessons,
    minutes: float,
    device: str,
    seed: int,
    compiled: bool,
    weights: Path | None = None,
) -> tuple[MtpModule, int]:
    """Train an MTP module, from the exported `weights` if they are given, and return it with the number of tokens seen.

    The target is frozen; its embedding is the module's input and head.
    """
    torch.manual_seed(seed)
    module = MtpModule(target.config).to(device)
    if weights is not None:
        module.load_checkpoint(load_file(weights))
    head = target.lm_head.weight.detach()
    forward: MtpForward = torch.compile(module) if compiled else module
    measure = torch.compile(divergence) if compiled else divergence
    optimiser = Optimiser(module, matrix_rate=0.02, other_rate=0.004)

    def loss_of(tokens: Tensor, hidden: Tensor) -> float:
        return mtp_loss(forward, head, tokens, hidden, lambda rows, taught: measure(rows, head, taught, head))

    return module, train_on_lessons(module, optimiser, lessons, loss_of, minutes, device)
