"""Who drafts for a target: chosen and checked before anything is loaded, then loaded behind it.

A plan is what the rest needs to know of a drafter that is not there yet: what memory it will take, whether the target
has to keep its hidden states for it, and how to load it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from runtime.checkpoint.config import load_config
from runtime.errors import CheckpointError
from runtime.kv.cache import KVCache, kv_bytes_per_token
from runtime.loading.footprint import packed_weight_bytes
from runtime.loading.mtp_weights import find_mtp, load_mtp_weights, missing_mtp, mtp_bytes
from runtime.loading.served import Proposer
from runtime.nn.model import HiddenStates, Transformer
from runtime.nn.mtp import MtpModule, one_layer_config
from runtime.nn.quantize import choose_formats
from runtime.nn.weights import load_weights
from runtime.step.device import select_dtype
from runtime.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.checkpoint.config import ModelConfig
    from runtime.loading.mtp_weights import MtpSource
    from runtime.loading.options import LoadOptions
    from runtime.nn.quantization import Quantization
    from runtime.nn.weights import Weights

logger = logging.getLogger("cede.model")

# The logit of a token that a draft model has no row for.  Not minus infinity, which would pass for a fault.
UNKNOWN = -1e15


@dataclass(frozen=True, slots=True)
class Memory:
    """What a drafter takes, in bytes: its weights, and what it keeps for each position of each slot."""

    weights: int = 0
    per_token: int = 0


class DrafterPlan(Protocol):
    """A drafter that is not loaded yet, or the knowledge that there is none."""

    @property
    def proposer(self) -> Proposer:
        """Whom it serves."""

    def memory(self, device: torch.device, dtype: torch.dtype) -> Memory:
        """What it will take beside a target on `device` in `dtype`."""

    def states(self, slots: int, context: int, device: torch.device, dtype: torch.dtype) -> HiddenStates | None:
        """Where the target is to keep its hidden states, if that is wanted."""

    def load(self, target: Transformer) -> Transformer | None:
        """Load it for the target's slots and context, on the calling thread.  Raises CheckpointError."""


@dataclass(frozen=True, slots=True)
class NoDrafter:
    """Nothing to load: no speculation, or drafts that are looked up."""

    proposer: Proposer = Proposer.OFF

    def memory(self, device: torch.device, dtype: torch.dtype) -> Memory:
        return Memory()

    def states(self, slots: int, context: int, device: torch.device, dtype: torch.dtype) -> HiddenStates | None:
        return None

    def load(self, target: Transformer) -> Transformer | None:
        return None


@dataclass(frozen=True, slots=True)
class MtpPlan:
    """The module of the target's own checkpoint.  `config` and `quantize` are the target's."""

    source: MtpSource
    config: ModelConfig
    quantize: Quantization | None = None
    proposer: Proposer = Proposer.MTP

    def memory(self, device: torch.device, dtype: torch.dtype) -> Memory:
        kept = kv_bytes_per_token(one_layer_config(self.config), dtype) + self.config.hidden_size * dtype.itemsize
        return Memory(mtp_bytes(self.config, dtype), kept)

    def states(self, slots: int, context: int, device: torch.device, dtype: torch.dtype) -> HiddenStates | None:
        pre_norm = self.source.layout.pre_norm_states
        return HiddenStates(slots, context, self.config.hidden_size, device, dtype, pre_norm=pre_norm)

    def load(self, target: Transformer) -> Transformer | None:
        embedding = target.weights.embedding
        weights = load_mtp_weights(self.source, self.config, device=embedding.device, dtype=embedding.dtype)
        weights.pack(choose_formats(self.quantize, embedding.device, embedding.dtype).layers)
        assert target.states is not None, "the target was made with this plan's states"
        return MtpModule(self.config, weights, target, target.states)


@dataclass(frozen=True, slots=True)
class DraftModelPlan:
    """A smaller model of the same vocabulary.

    `config` is its own, `vocab_size` and `quantize` the target's, `dtype` a name or `auto`.
    """

    folder: Path
    config: ModelConfig
    vocab_size: int
    dtype: str = "auto"
    quantize: Quantization | None = None
    proposer: Proposer = Proposer.DRAFT

    def memory(self, device: torch.device, dtype: torch.dtype) -> Memory:
        own = select_dtype(self.dtype, device, self.config.dtype)
        weights = packed_weight_bytes(self.config, device, own, self.quantize)
        return Memory(weights, kv_bytes_per_token(self.config, own))

    def states(self, slots: int, context: int, device: torch.device, dtype: torch.dtype) -> HiddenStates | None:
        return None

    def load(self, target: Transformer) -> Transformer | None:
        device = target.weights.embedding.device
        dtype = select_dtype(self.dtype, device, self.config.dtype)
        formats = choose_formats(self.quantize, device, dtype)
        weights = load_weights(self.folder, self.config, device=device, dtype=dtype, formats=formats)
        kv = KVCache(self.config, slots=target.kv.slots, context=target.context, device=device, dtype=dtype)
        return DraftModel(self.config, weights, kv, self.vocab_size)


class DraftModel(Transformer):
    """A model that drafts for another one of the same tokens.

    Published models of one family pad their matrices to different sizes, so ids that no tokenizer has may have a row in
    one of them only.  What the draft model lacks is read as its last row, and never drafted; what the target lacks is
    cut off.
    """

    def __init__(self, config: ModelConfig, weights: Weights, kv: KVCache, vocab_size: int) -> None:
        """`vocab_size` is the target's; the rest is the draft model's own."""
        super().__init__(config, weights, kv)
        self._vocab_size = vocab_size
        missing = max(0, vocab_size - config.vocab_size)
        self._unknown = torch.full((1, missing), UNKNOWN, device=weights.embedding.device)

    def embed(self, token_ids: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return super().embed(token_ids.clamp(max=self.config.vocab_size - 1), slots, positions)

    def compute_logits(self, states: torch.Tensor) -> torch.Tensor:
        logits = super().compute_logits(states)[:, : self._vocab_size]
        if not self._unknown.numel():
            return logits
        return torch.cat((logits, self._unknown.expand(len(logits), -1)), dim=1)


# --- the choice ---------------------------------------------------------------------------------------------------


def choose_proposer(wanted: Proposer | None, *, has_mtp: bool, has_draft: bool) -> Proposer:
    """`wanted`; or where that is None, what is likely to be accepted most for what it costs."""
    if wanted is not None:
        return wanted
    if has_mtp:
        return Proposer.MTP
    return Proposer.DRAFT if has_draft else Proposer.NGRAM


def plan_drafter(options: LoadOptions, config: ModelConfig, tokenizer: Tokenizer) -> DrafterPlan:
    """Choose a drafter for a target, and check all of it but its weights.

    Args:
        options: as given to `describe_model`.
        config, tokenizer: the target's.

    Raises:
        CheckpointError: what was asked for is not there, or does not go with the target.
    """
    source = find_mtp(options.folder, config) if options.speculate in (None, Proposer.MTP) else None
    proposer = choose_proposer(options.speculate, has_mtp=source is not None, has_draft=options.draft is not None)
    if proposer is Proposer.MTP:
        if source is None:
            raise missing_mtp(options.folder)
        return MtpPlan(source, config, options.quantize)
    if proposer is Proposer.DRAFT:
        if options.draft is None:
            raise CheckpointError("--speculate draft needs a --draft-model for this target")
        return _plan_model(options, options.draft, config, tokenizer)
    return NoDrafter(proposer)


def log_drafter(proposer: Proposer, draft: Path | None) -> None:
    """Say who drafts, in one line, and in another that a draft model was given in vain."""
    who = {
        Proposer.OFF: "off",
        Proposer.NGRAM: "ngram, looked up in the text so far",
        Proposer.DRAFT: f"draft, by the model in {draft}",
        Proposer.MTP: "mtp, by the checkpoint's own module",
    }
    logger.info("speculation: %s", who[proposer])
    if draft is not None and proposer is not Proposer.DRAFT:
        logger.warning("the draft model in %s is not used; it would be with --speculate draft", draft)


def _plan_model(options: LoadOptions, folder: Path, target: ModelConfig, tokenizer: Tokenizer) -> DraftModelPlan:
    """Check a draft model; one without a tokenizer of its own is taken to use the target's.  Raises CheckpointError."""
    context = options.context or target.context_length
    config = load_config(folder)
    if (folder / "tokenizer.json").is_file():
        _check_vocabulary(folder, Tokenizer.load(folder), tokenizer)
    elif config.vocab_size != target.vocab_size:
        raise CheckpointError(
            f"{folder}: has no tokenizer.json, and the draft model's vocabulary has {config.vocab_size} tokens where "
            f"the target's has {target.vocab_size}"
        )
    if config.context_length < context:
        raise CheckpointError(
            f"{folder}: the draft model's context, {config.context_length} tokens, is shorter than the target's, "
            f"{context}; --context {config.context_length} would serve both"
        )
    return DraftModelPlan(folder, config, target.vocab_size, options.dtype, options.quantize)


def _check_vocabulary(folder: Path, draft: Tokenizer, target: Tokenizer) -> None:
    """Raise CheckpointError, naming a token, unless both have the same tokens under the same ids."""
    drafted, wanted = draft.vocabulary, target.vocabulary
    if drafted == wanted:
        return
    differing = [token for token in drafted.keys() | wanted.keys() if drafted.get(token) != wanted.get(token)]
    token = min(differing, key=lambda token: (wanted.get(token, drafted.get(token, 0)), token))
    raise CheckpointError(
        f"{folder}: the draft model has another vocabulary than the target: the token {token!r} is "
        f"{drafted.get(token, 'absent')} there and {wanted.get(token, 'absent')} here"
    )
