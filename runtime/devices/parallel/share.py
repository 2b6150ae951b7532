"""Division of a model among ranks (Shoeybi et al., "Megatron-LM", arXiv 1909.08053).  Torch is not imported.

Of each matrix that reads hidden states, a rank has the rows of its own attention heads or of its part of an MLP's inner
width; of each matrix that writes them, the columns of the same.  So a rank's attention, or MLP, is a sum's part, and
all ranks' parts are added up.  Each rank has a part of every expert.  Norms, routers, what makes latents, and the
embedding are whole on every rank; the head is on rank 0 alone, which draws the tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.layer_config import ExpertsConfig


@dataclass(frozen=True, slots=True)
class Share:
    """Share that one rank has of a model.

    Attributes:
        rank: whose share it is, from 0.
        of: how many ranks there are.
    """

    rank: int = 0
    of: int = 1

    @property
    def leads(self) -> bool:
        """Return whether it is rank 0's, which plans, draws tokens and tells the others what to compute."""
        return self.rank == 0

    def part(self, size: int) -> slice:
        """Return its part of so many rows or columns, which can be divided."""
        each = size // self.of
        return slice(self.rank * each, (self.rank + 1) * each)


WHOLE = Share()


def check_shares(config: ModelConfig, of: int) -> None:
    """Raise CheckpointError, naming what cannot be divided, unless `of` ranks can compute a model together."""
    if of > 1 and config.is_hybrid:
        raise CheckpointError(f"--tensor-parallel {of}: the recurrent layers of {config.architecture} are not divided")
    if of > 1 and config.layer_shapes:
        raise CheckpointError(
            f"--tensor-parallel {of}: {config.architecture} has layers of several sizes, or shared KV"
        )
    for what, size in _divided(config):
        if size % of:
            raise CheckpointError(
                f"--tensor-parallel {of}: the {what} of {config.architecture}, {size}, cannot be divided by {of}"
            )
    if of > 1 and config.qk_norm == "joint" and config.norms.kind != "rms":
        raise CheckpointError(
            f"--tensor-parallel {of}: {config.architecture} normalises all heads together, by their mean, which is not "
            "divided"
        )


def share_config(config: ModelConfig, of: int) -> ModelConfig:
    """Return the shape of each of `of` shares of a model, as its layers see it."""
    if of == 1:
        return config
    return replace(
        config,
        ranks=of,
        num_heads=config.num_heads // of,
        num_kv_heads=max(1, config.num_kv_heads // of),
        intermediate_size=config.intermediate_size // of,
        experts=tuple(None if experts is None else _share_of(experts, of) for experts in config.experts),
    )


def _divided(config: ModelConfig) -> Iterator[tuple[str, int]]:
    """Yield what is divided, and its size."""
    yield "attention heads", config.num_heads
    if config.latent is None:
        yield "key and value heads", config.num_kv_heads
    if None in config.experts:
        yield "MLP's inner width", config.intermediate_size
    for experts in dict.fromkeys(experts for experts in config.experts if experts is not None):
        yield "inner width of an expert", experts.intermediate_size
        yield "inner width of the shared experts", experts.shared_size


def _share_of(experts: ExpertsConfig, of: int) -> ExpertsConfig:
    return replace(experts, intermediate_size=experts.intermediate_size // of, shared_size=experts.shared_size // of)
