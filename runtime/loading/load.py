"""From a model's folder to something that can run steps."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import torch

from runtime.checkpoint.config import check_context, load_config
from runtime.errors import CheckpointError
from runtime.kv.cache import KVCache, kv_bytes_per_token
from runtime.loading.drafters import NoDrafter, log_drafter
from runtime.loading.footprint import check_memory
from runtime.loading.served import ServedModel
from runtime.nn.model import Transformer
from runtime.nn.quantize import choose_formats
from runtime.nn.weights import load_weights, weight_bytes
from runtime.step.device import free_memory, select_device, select_dtype
from runtime.text.chat import ChatTemplate
from runtime.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.checkpoint.config import ModelConfig
    from runtime.loading.drafters import DrafterPlan, Memory
    from runtime.loading.options import LoadOptions

logger = logging.getLogger("cede.model")

# What KV may take of the memory that is free once the weights are there; the rest is for activations and the system.
KV_SHARE = 0.6
CONTEXT_STEP = 64
SMALL_MODEL = 64 * 2**20  # bytes of weights


def adapts_threads(options: LoadOptions) -> bool:
    """Whether steps may use fewer threads while other programs want the processor."""
    return options.threads is None and select_device(options.device).type == "cpu"


def describe_model(options: LoadOptions, name: str) -> tuple[ServedModel, ModelConfig]:
    """Read everything but the weights: fast, so that a wrong folder or value is refused at once.

    Raises:
        CheckpointError: the folder is not one that cede loads, or the context is longer than the model's.
    """
    config = load_config(options.folder)
    check_context(config, options.context)
    tokenizer = Tokenizer.load(options.folder)
    served = ServedModel(
        name=name,
        created=int(time.time()),
        context_length=options.context or config.context_length,
        vocab_size=config.vocab_size,
        eos_token_ids=_end_tokens(config, tokenizer),
        tokenizer=tokenizer,
        chat_template=ChatTemplate.load(options.folder),
    )
    return served, config


def _end_tokens(config: ModelConfig, tokenizer: Tokenizer) -> tuple[int, ...]:
    """What ends an output: as the model's files say, and the tokenizer's, which many fine-tunes alone have set.

    Without ids that the model has no logit for, which an index would fail on.
    """
    ends = dict.fromkeys((*config.eos_token_ids, tokenizer.eos_id))
    return tuple(token_id for token_id in ends if token_id is not None and token_id < config.vocab_size)


def load_model(
    options: LoadOptions,
    config: ModelConfig,
    drafter: DrafterPlan | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Transformer:
    """Load weights and allocate KV, on the calling thread; what drafts for it is loaded after it.

    Args:
        options: as given to `describe_model`.
        config: as it returned.
        drafter: what `plan_drafter` returned; None for none.
        progress: called with bytes done and in all.

    Raises:
        CheckpointError: the weights are not what the config says, or memory does not hold them and the KV.
    """
    drafter = drafter or NoDrafter()
    device = select_device(options.device)
    dtype = select_dtype(options.dtype, device, config.dtype)
    check_memory(options, config, drafter, device, dtype)
    _set_threads(options.threads, weight_bytes(config, dtype))
    formats = choose_formats(options.quantize, device, dtype)
    weights = load_weights(options.folder, config, device=device, dtype=dtype, formats=formats, progress=progress)
    context = options.context or _affordable_context(
        config, options.slots, device, dtype, drafter.memory(device, dtype)
    )
    kv = KVCache(config, slots=options.slots, context=context, device=device, dtype=dtype)
    logger.info(
        "%s on %s in %s, %s weights, %d CPU threads: %d slots of %d tokens, %.2f GiB of KV",
        *(config.architecture, device, str(dtype).removeprefix("torch."), options.quantize or "full"),
        *(torch.get_num_threads(), options.slots, context, kv.nbytes / 2**30),
    )
    log_drafter(drafter.proposer, options.draft)
    return Transformer(config, weights, kv, drafter.states(options.slots, context, device, dtype))


def _set_threads(threads: int | None, weights: int) -> None:
    """Choose how many threads an operation of this thread's uses, for a model of so many bytes of plain weights.

    The products of a model that fits a last-level cache take some tens of microseconds, and a barrier between threads
    costs as much, more where the event loop or anybody else is busy (bench/LOG.md).
    """
    if threads is None and weights <= SMALL_MODEL:
        threads = 1
    if threads is not None:
        torch.set_num_threads(threads)


def _affordable_context(
    config: ModelConfig, slots: int, device: torch.device, dtype: torch.dtype, drafter: Memory
) -> int:
    """The model's own context, or the longest that fits the memory beside the drafter, in whole steps."""
    per_token = kv_bytes_per_token(config, dtype) + drafter.per_token
    affordable = int((free_memory(device) - drafter.weights) * KV_SHARE) // (slots * per_token)
    if affordable >= config.context_length:
        return config.context_length
    context = affordable // CONTEXT_STEP * CONTEXT_STEP
    if context <= 0:
        raise CheckpointError(f"not enough memory for the KV of {slots} slots; try fewer, or a smaller --dtype")
    logger.warning(
        "the context is bounded by memory: %d tokens a slot instead of %d (--slots %d)",
        *(context, config.context_length, slots),
    )
    return context
