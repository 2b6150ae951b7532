"""Muon for the layers' matrices, AdamW for the rest.

Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/): the momentum of each weight matrix is replaced by
its nearest semi-orthogonal matrix, found by a quintic Newton-Schulz iteration. At this budget, less than two passes
over the text, it reaches a given loss with far fewer tokens than AdamW. `torch.optim.Muon` iterates in bfloat16,
which is slow on CPUs without the instructions, hence these few lines in float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def orthogonalise(matrix: Tensor, steps: int = 5) -> Tensor:
    """Return a matrix of the same shape, [rows, columns], with singular values near one."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x: Tensor = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


class Optimiser:
    """Both optimisers behind one ``step``.

    Args:
        model: to be trained.
        matrix_rate: peak learning rate of Muon.
        other_rate: peak learning rate of AdamW.
        decay: weight decay of matrices.
    """

    def __init__(self, model: nn.Module, *, matrix_rate: float, other_rate: float, decay: float = 0.02) -> None:
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self.matrices = [p for name, p in named if p.ndim == 2 and "embed" not in name]
        chosen = {id(p) for p in self.matrices}
        others = [p for _, p in named if id(p) not in chosen]
        self.adam = torch.optim.AdamW(others, lr=other_rate, betas=(0.9, 0.95), weight_decay=0.0)
        self.momenta = [torch.zeros_like(p) for p in self.matrices]
        self.matrix_rate, self.other_rate, self.decay = matrix_rate, other_rate, decay

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """Apply and clear the gradients; `factor` is the share of the peak learning rates."""
        for group in self.adam.param_groups:
            group["lr"] = self.other_rate * factor
        self.adam.step()
        self.adam.zero_grad()
        rate = self.matrix_rate * factor
        for p, momentum in zip(self.matrices, self.momenta, strict=True):
            if p.grad is None:
                continue
            momentum.lerp_(p.grad, 0.05)
            update = orthogonalise(p.grad.lerp(momentum, 0.95))
            p.mul_(1 - rate * self.decay)
            p.add_(update, alpha=-rate * max(1.0, p.shape[0] / p.shape[1]) ** 0.5)
            p.grad = None

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"adam": self.adam.state_dict(), "momenta": self.momenta}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.adam.load_state_dict(state["adam"])
        for mine, saved in zip(self.momenta, state["momenta"], strict=True):
            mine.copy_(saved)
