"""A smaller model of the target's vocabulary as a drafter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from runtime.nn.model import Transformer

if TYPE_CHECKING:
    from runtime.checkpoint.config import ModelConfig
    from runtime.devices.cuda.capture import Capture
    from runtime.devices.single_rows.rows import RowKernels
    from runtime.kv.cache import KVCache
    from runtime.nn.weights import Weights

# The logit of a token that a draft model has no row for.  Minus infinity would be taken for a fault.
ABSENT_LOGIT = -1e15


class DraftModel(Transformer):
    """A model that drafts for another one of the same tokens.

    Published models of one family pad their matrices to different sizes, so ids that no tokenizer has may have a row in
    one of them only.  A token that the draft model lacks is read as its last row, and never drafted; one that the
    target lacks is cut off.

    Args:
        config: the draft model's, as all but the last.
        weights: of that config.
        kv: likewise.
        vocab_size: the target's.
        capture: as of `Transformer`.
        row_kernels: likewise, for this model.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        kv: KVCache,
        vocab_size: int,
        capture: Capture | None = None,
        row_kernels: RowKernels | None = None,
    ) -> None:
        super().__init__(config, weights, kv, capture=capture, row_kernels=row_kernels)
        self._vocab_size = vocab_size
        absent = max(0, vocab_size - config.vocab_size)
        self._absent = torch.full((1, absent), ABSENT_LOGIT, device=weights.embedding.device)

    def embed(self, token_ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Embed the tokens, `[rows]` to `[rows, hidden]`."""
        return super().embed(token_ids.clamp(max=self.config.vocab_size - 1), places)

    def embed_for_layers(self, token_ids: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor | None:
        """Likewise, as `Transformer.embed_for_layers`."""
        return super().embed_for_layers(token_ids.clamp(max=self.config.vocab_size - 1), embedded)

    def compute_logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits of the target's vocabulary, float32 `[rows, vocab]`."""
        logits = super().compute_logits(states)[:, : self._vocab_size]
        if not self._absent.numel():
            return logits
        return torch.cat((logits, self._absent.expand(len(logits), -1)), dim=1)
