"""Drafters for a target: chosen and checked before anything is loaded, then loaded after it.

A plan is what must be known of a drafter that is not loaded yet: the memory that it will take, whether the target has
to store its hidden states for it, and how to load it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runtime.checkpoint.families.table import FAMILIES
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from runtime.kv.cache import KVCache, kv_bytes_per_token
from runtime.loading.few_rows import open_row_kernels
from runtime.loading.footprint import DrafterMemory
from runtime.loading.mtp_weights import find_mtp, load_mtp_weights, missing_mtp, mtp_bytes
from runtime.loading.served import DRAFT_MODELS, Proposer
from runtime.nn.assistant import Assistant, lending_layers, load_assistant, projection_bytes
from runtime.nn.draft_model import DraftModel
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.model import HiddenStates
from runtime.nn.mtp import MtpModule, one_layer_config
from runtime.nn.plan import planned_bytes
from runtime.nn.weights import load_weights
from runtime.step.device import select_dtype
from runtime.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.open import Checkpoint
    from runtime.loading.mtp_weights import MtpSource
    from runtime.loading.options import LoadOptions
    from runtime.nn.model import Transformer

logger = logging.getLogger("cede.model")


class DrafterPlan(Protocol):
    """Plan of a drafter before it is loaded; `NoDrafter` where there is none."""

    @property
    def proposer(self) -> Proposer:
        """The proposer that drafts so."""

    def memory(self, device: torch.device, dtype: torch.dtype) -> DrafterMemory:
        """Return what it will take beside a target on `device` in `dtype`."""

    def states(self, positions: int, device: torch.device, dtype: torch.dtype) -> HiddenStates | None:
        """Allocate room for the target's hidden states at so many positions; None where the drafter reads none."""

    def load(self, target: Transformer) -> Transformer | None:
        """Load it for the target's slots and context, on the calling thread; None where nothing is to be loaded.

        Raises:
            CheckpointError: its weights are not what the config says, or unreadable.
        """


@dataclass(frozen=True, slots=True)
class NoDrafter:
    """Nothing to load: no speculation, or drafts that are looked up."""

    proposer: Proposer = Proposer.OFF

    def memory(self, device: torch.device, dtype: torch.dtype) -> DrafterMemory:
        """Return that it takes nothing."""
        return DrafterMemory()

    def states(self, positions: int, device: torch.device, dtype: torch.dtype) -> HiddenStates | None:
        """Return None: no states are read."""
        return None

    def load(self, target: Transformer) -> Transformer | None:
        """Return None: there is nothing to load."""
        return None


@dataclass(frozen=True, slots=True)
class MtpPlan:
    """The module of the target's own checkpoint.

    Attributes:
        source: where the module's weights are.
        config: the target's.
        quantize: likewise.
    """

    source: MtpSource
    config: ModelConfig
    quantize: Quantization = Quantization.AUTO
    proposer: Proposer = Proposer.MTP

    def memory(self, device: torch.device, dtype: torch.dtype) -> DrafterMemory:
        """Return the bytes of the module's weights, of its KV and of the target's states."""
        per_token = kv_bytes_per_token(one_layer_config(self.config), dtype) + self.config.hidden_size * dtype.itemsize
        return DrafterMemory(mtp_bytes(self.config, dtype, self.source.layout), per_token)

    def states(self, positions: int, device: torch.device, dtype: torch.dtype) -> HiddenStates | None:
        """Allocate the target's hidden states, `[positions, hidden]`."""
        pre_norm = self.source.layout.pre_norm_states
        return HiddenStates(positions, self.config.hidden_size, device, dtype, pre_norm=pre_norm)

    def load(self, target: Transformer) -> Transformer | None:
        """Load the module, which shares the target's embedding and head."""
        embedding = target.weights.embedding
        formats = choose_formats(self.quantize, embedding.device, embedding.dtype)
        weights = load_mtp_weights(
            self.source, self.config, device=embedding.device, dtype=embedding.dtype, formats=formats
        )
        assert target.states is not None, "the target was made with this plan's states"
        return MtpModule(self.config, weights, target, target.states)


@dataclass(frozen=True, slots=True)
class DraftModelPlan:
    """A smaller model of the same vocabulary.

    Attributes:
        checkpoint: the draft model's.
        vocab_size: the target's.
        dtype: a name, or `auto`.
        quantize: the target's.
    """

    checkpoint: Checkpoint
    vocab_size: int
    dtype: str = "auto"
    quantize: Quantization = Quantization.AUTO
    proposer: Proposer = Proposer.DRAFT

    def memory(self, device: torch.device, dtype: torch.dtype) -> DrafterMemory:
        """Return the bytes of the model's weights and KV, which are of its own dtype."""
        config = self.checkpoint.config
        own = select_dtype(self.dtype, device, config.dtype)
        weights = planned_bytes(config, self.quantize, device, own, self.checkpoint.tensors()).total()
        return DrafterMemory(weights, kv_bytes_per_token(config, own))

    def states(self, positions: int, device: torch.device, dtype: torch.dtype) -> HiddenStates | None:
        """Return None: no states are read."""
        return None

    def load(self, target: Transformer) -> Transformer | None:
        """Load the model, with KV for the target's slots and context."""
        device = target.weights.embedding.device
        config = self.checkpoint.config
        dtype = select_dtype(self.dtype, device, config.dtype)
        formats = choose_formats(self.quantize, device, dtype)
        weights = load_weights(self.checkpoint, device=device, dtype=dtype, formats=formats)
        pool = target.kv
        kv = KVCache(
            config, slots=pool.slots, context=pool.context, positions=pool.positions, device=device, dtype=dtype
        )
        rows = None if target.row_kernels is None else open_row_kernels(config, device, dtype)
        return DraftModel(config, weights, kv, self.vocab_size, target.capture, rows)


@dataclass(frozen=True, slots=True)
class AssistantPlan:
    """A model made for the target, which reads its KV and hidden states.

    Attributes:
        checkpoint: the assistant's.
        target: the target's config.
        quantize: the target's.

    Raises:
        CheckpointError: it was made for a model of other sizes.
    """

    checkpoint: Checkpoint
    target: ModelConfig
    quantize: Quantization = Quantization.AUTO
    proposer: Proposer = Proposer.ASSISTANT

    def __post_init__(self) -> None:
        """Check that the target has the KV that it reads."""
        try:
            lending_layers(self.checkpoint.config, self.target)
        except CheckpointError as error:
            raise CheckpointError(f"{self.checkpoint.path} does not go with this target: {error}") from error

    def memory(self, device: torch.device, dtype: torch.dtype) -> DrafterMemory:
        """Return the bytes of its weights and of the target's states; it has no KV."""
        config = self.checkpoint.config
        weights = planned_bytes(config, self.quantize, device, dtype, self.checkpoint.tensors()).total()
        weights += projection_bytes(config, self.target, dtype)
        return DrafterMemory(weights, self.target.hidden_size * dtype.itemsize)

    def states(self, positions: int, device: torch.device, dtype: torch.dtype) -> HiddenStates | None:
        """Allocate the target's hidden states, `[positions, hidden]`."""
        return HiddenStates(positions, self.target.hidden_size, device, dtype)

    def load(self, target: Transformer) -> Transformer | None:
        """Load it, in the target's dtype."""
        embedding = target.weights.embedding
        formats = choose_formats(self.quantize, embedding.device, embedding.dtype)
        weights = load_assistant(
            self.checkpoint, self.target, device=embedding.device, dtype=embedding.dtype, formats=formats
        )
        assert target.states is not None, "the target was made with this plan's states"
        return Assistant(self.checkpoint.config, weights, target, target.states)


# --- the choice ---------------------------------------------------------------------------------------------------


def choose_proposer(wanted: Proposer | None, *, has_mtp: bool, has_draft: bool) -> Proposer:
    """Return `wanted` or, where that is None, the proposer that is likely to bring most for what it costs."""
    if wanted is not None:
        return wanted
    if has_mtp:
        return Proposer.MTP
    return Proposer.DRAFT if has_draft else Proposer.NGRAM


def plan_drafter(options: LoadOptions, checkpoint: Checkpoint, tokenizer: Tokenizer) -> DrafterPlan:
    """Choose a drafter for a target, and check all of it but its weights.

    Args:
        options: as given to `describe_model`.
        checkpoint: the target's.
        tokenizer: likewise.

    Raises:
        CheckpointError: what was asked for is not there, or does not go with the target.
    """
    source = find_mtp(checkpoint) if options.speculate in (None, Proposer.MTP) else None
    proposer = choose_proposer(options.speculate, has_mtp=source is not None, has_draft=options.draft is not None)
    if proposer is Proposer.MTP:
        if source is None:
            raise missing_mtp(checkpoint)
        return MtpPlan(source, checkpoint.config, options.quantize)
    if proposer in DRAFT_MODELS:
        if options.draft is None:
            raise CheckpointError(f"--speculate {proposer} needs a --draft-model for this target")
        return _plan_model(options, options.draft, checkpoint.config, tokenizer)
    return NoDrafter(proposer)


def log_drafter(proposer: Proposer, draft: Path | None) -> None:
    """Log what drafts, and warn of a draft model that is not used."""
    described = {
        Proposer.OFF: "off",
        Proposer.NGRAM: "ngram, looked up in the text so far",
        Proposer.DRAFT: f"draft, by the model in {draft}",
        Proposer.ASSISTANT: f"assistant, by the model in {draft}, which reads the target's KV",
        Proposer.MTP: "mtp, by the checkpoint's own module",
    }
    logger.info("speculation: %s", described[proposer])
    if draft is not None and proposer not in DRAFT_MODELS:
        logger.warning("the draft model in %s is not used; it would be with --speculate draft", draft)


def _plan_model(options: LoadOptions, folder: Path, target: ModelConfig, tokenizer: Tokenizer) -> DrafterPlan:
    """Check a draft model; one without a tokenizer of its own is taken to use the target's.

    Raises:
        CheckpointError: it is not a model, or of another vocabulary, or of a shorter context.
    """
    context = options.context or target.context_length
    checkpoint = open_checkpoint(folder)
    config = checkpoint.config
    if config.is_hybrid:
        raise CheckpointError(f"{folder}: a draft model with recurrent layers is not supported")
    if checkpoint.has_tokenizer:
        _check_vocabulary(folder, Tokenizer.load(checkpoint), tokenizer)
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
    assists = FAMILIES[config.architecture].assists
    if options.speculate in DRAFT_MODELS and assists != (options.speculate is Proposer.ASSISTANT):
        other = Proposer.ASSISTANT if assists else Proposer.DRAFT
        raise CheckpointError(f"{folder}: {config.architecture} drafts with --speculate {other}")
    if assists:
        return AssistantPlan(checkpoint, target, options.quantize)
    return DraftModelPlan(checkpoint, target.vocab_size, options.dtype, options.quantize)


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
