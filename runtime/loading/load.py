"""Loading a model: from its folder to something that can run steps."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from runtime.chat.chat import Chat
from runtime.checkpoint.config import check_context
from runtime.checkpoint.families.table import FAMILIES
from runtime.checkpoint.open import open_checkpoint
from runtime.common.units import counted, format_size
from runtime.devices.parallel.share import WHOLE, check_shares, share_config
from runtime.errors import CheckpointError
from runtime.kv.cache import KVCache
from runtime.kv.pages import pool_positions
from runtime.kv.rings import plan_rings
from runtime.kv.states import StateBuffers
from runtime.loading.drafters import NoDrafter, log_drafter
from runtime.loading.few_rows import check_deterministic, deterministic_or_refused, open_few_rows
from runtime.loading.footprint import SlotMemory, check_memory, pool_sizes, state_memory
from runtime.loading.served import ServedModel, facts_of
from runtime.nn.ahead_model import AheadModel
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.model import Transformer
from runtime.nn.weights import load_weights, weight_bytes
from runtime.step.device import free_memory, select_device, select_dtype, settle_kernels
from runtime.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.open import Checkpoint
    from runtime.devices.parallel.kv import KVSizes
    from runtime.loading.drafters import DrafterPlan
    from runtime.loading.few_rows import FewRows
    from runtime.loading.footprint import DrafterMemory, StateMemory
    from runtime.loading.options import LoadOptions
    from runtime.loading.others import OtherRanks
    from runtime.nn.model import HiddenStates
    from runtime.nn.rank_model import LeadingModel
    from runtime.nn.weights import Weights

logger = logging.getLogger("cede.model")

# The share that KV may take of the memory that is free beside the weights; the rest is for activations and the system.
KV_SHARE = 0.6
CONTEXT_STEP = 64  # tokens that a context bounded by memory is a multiple of
SMALL_MODEL = 64 * 2**20  # bytes of weights


def adapts_threads(options: LoadOptions) -> bool:
    """Return whether steps may use fewer threads while other programs want the processor.

    Ranks that compute together all use the same number: they have to round alike.
    """
    return options.threads is None and options.tensor_parallel == 1 and select_device(options.device).type == "cpu"


def describe_model(options: LoadOptions, name: str) -> tuple[ServedModel, Checkpoint]:
    """Read everything but the weights, which is fast, so that a wrong model or value is refused at once.

    Raises:
        CheckpointError: the model is not one that cede loads, the context is longer than the model's, it cannot be
            divided among so many ranks, or what would compute it is not deterministic and is to be.
    """
    checkpoint = open_checkpoint(options.path)
    config = checkpoint.config
    if FAMILIES[config.architecture].assists:
        raise CheckpointError(f"{options.path}: {config.architecture} only drafts for another model: --draft-model")
    check_context(config, options.context)
    check_shares(config, options.tensor_parallel)
    check_deterministic(options)
    tokenizer = Tokenizer.load(checkpoint)
    served = ServedModel(
        name=name,
        created=int(time.time()),
        context_length=options.context or config.context_length,
        vocab_size=config.vocab_size,
        eos_token_ids=_end_tokens(config, tokenizer),
        tokenizer=tokenizer,
        chat=Chat.load(
            checkpoint,
            tokenizer.added_tokens,
            options.tool_format,
            template=options.chat_template,
            open_objects=options.open_objects == "on",
        ),
        open_objects=options.open_objects == "on",
        facts=facts_of(checkpoint),
        pooling=options.pooling.pooling(checkpoint.pooling()),
    )
    return served, checkpoint


def as_loaded(described: ServedModel, model: Transformer) -> ServedModel:
    """Return what is known of a model once it is loaded: what its KV and its buffers have room for."""
    kv, states = model.kv, model.buffers
    return replace(
        described,
        context_length=kv.context,
        rings=kv.rings,
        positions=kv.positions,
        position_bytes=kv.bytes_per_position,
        state_buffers=0 if states is None else states.count,
        state_bytes=0 if states is None else states.bytes_per_buffer,
    )


def _end_tokens(config: ModelConfig, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the tokens that end an output: those of the model's files, and the tokenizer's.

    Many fine-tunes have set the tokenizer's alone.  Ids that the model has no logit for are left out.
    """
    ends = dict.fromkeys((*config.eos_token_ids, tokenizer.eos_id))
    return tuple(token_id for token_id in ends if token_id is not None and token_id < config.vocab_size)


def load_model(
    options: LoadOptions,
    checkpoint: Checkpoint,
    drafter: DrafterPlan | None = None,
    progress: Callable[[int, int], None] | None = None,
    others: OtherRanks | None = None,
) -> Transformer:
    """Load weights and allocate KV, on the calling thread; a drafter is loaded after it.

    Args:
        options: as given to `describe_model`.
        checkpoint: what that returned.
        drafter: what `plan_drafter` returned; None for none.
        progress: called with bytes done and in all, of the weights' files.
        others: the ranks that compute the model together with this one, `options.tensor_parallel` in all; None where
            that is 1.

    Raises:
        CheckpointError: the weights are not the config's, memory does not hold them and the KV, or kernels are missing.
    """
    drafter = drafter or NoDrafter()
    config = checkpoint.config
    device = select_device(options.device)
    dtype = select_dtype(options.dtype, device, config.dtype)
    takes = drafter.memory(device, dtype)
    check_together(options, config, device)
    on_device = on_one_device(config, options, device)
    settle_kernels(device)
    _set_threads(options, weight_bytes(config, dtype))
    native = options.native if others is None else "off"
    few_rows = open_few_rows(native, config, device, dtype, deterministic=options.is_deterministic)
    check_memory(options, on_device, takes, device, dtype, checkpoint.tensors(), few_rows.kernels)
    share = WHOLE if others is None else others.share
    if others is not None:
        others.start(options, torch.get_num_threads())
    formats = choose_formats(options.quantize, device, dtype, few_rows.kernels)
    weights = load_weights(checkpoint, device=device, dtype=dtype, formats=formats, progress=progress, share=share)
    if others is not None:
        others.wait_loaded()
    memory = state_memory(options, config, dtype)
    sizes = _sizes(options, on_device, device, dtype, takes, memory.nbytes)
    states = drafter.states(sizes["positions"], device, dtype)
    model: Transformer
    if others is not None:
        model = lead(config, weights, sizes, states, others)
    else:
        model = _alone(config, weights, sizes, states, few_rows, options.is_deterministic, memory.buffers)
    _log_loaded(model, weights, device, memory, deterministic=options.is_deterministic)
    log_drafter(drafter.proposer, options.draft)
    return model


def _alone(
    config: ModelConfig,
    weights: Weights,
    sizes: KVSizes,
    states: HiddenStates | None,
    few_rows: FewRows,
    is_deterministic: bool,
    state_buffers: int,
) -> Transformer:
    """Make a model that one process computes; the arguments are those of `load_model`, and what it has made of them."""
    device, dtype = sizes["device"], sizes["dtype"]
    kind = Transformer if device.type == "cpu" else AheadModel
    buffers = StateBuffers(config, count=state_buffers, device=device, dtype=dtype) if state_buffers else None
    kv = KVCache(config, **sizes)
    with deterministic_or_refused():
        return kind(config, weights, kv, states, *few_rows, deterministic=is_deterministic, buffers=buffers)


def _log_loaded(
    model: Transformer, weights: Weights, device: torch.device, states: StateMemory, *, deterministic: bool
) -> None:
    kv = model.kv
    logger.info(
        "%s on %s in %s, weights: %s, %s: %s, %d tokens in all and %d in one, %.2f GiB of KV",
        model.config.architecture,
        device,
        str(kv.dtype).removeprefix("torch."),
        _weights_text(weights),
        counted(torch.get_num_threads(), "CPU thread"),
        counted(kv.slots, "slot"),
        kv.positions,
        kv.context,
        kv.nbytes / 2**30,
    )
    if states.buffers:
        recurrent = sum(layer is not None for layer in model.config.recurrent)
        size = format_size(states.nbytes)
        logger.info("%d of %d layers are recurrent, their states: %s", recurrent, model.num_layers, f"{states}, {size}")
    if model.native_layers:
        rows = "all" if deterministic else "few"
        logger.info("%s rows of %s by kernels of its own", rows, counted(model.native_layers, "layer"))


def _weights_text(weights: Weights) -> str:
    """Say how many bytes the weights take in each form, the most first."""
    sizes = sorted(weights.nbytes_by_form.items(), key=lambda item: -item[1])
    return ", ".join(f"{format_size(size)} of {form}" for form, size in sizes)


def _set_threads(options: LoadOptions, weights: int) -> None:
    """Set how many CPU threads an operation of the calling thread uses.

    The products of a model that fits a last-level cache take some tens of microseconds, and a barrier between threads
    costs as much, more where the event loop or another program is busy (bench/LOG.md).

    Args:
        options: say how many there are to be; a single one if the model is small, and else PyTorch's own choice, where
            they do not.  Ranks divide them.
        weights: bytes of the model's plain weights.
    """
    threads = options.threads
    if threads is None and weights <= SMALL_MODEL:
        threads = 1
    if options.tensor_parallel > 1:
        threads = max(1, (threads or torch.get_num_threads()) // options.tensor_parallel)
    if threads is not None:
        torch.set_num_threads(threads)


def _sizes(
    options: LoadOptions,
    config: ModelConfig,
    device: torch.device,
    dtype: torch.dtype,
    drafter: DrafterMemory,
    states: int,
) -> KVSizes:
    """Return the sizes of the KV; `states` are the bytes of all buffers for states."""
    if options.kv_memory is not None:
        context, positions = pool_sizes(options, SlotMemory(config, dtype, drafter.per_token))
    else:
        context = options.context or _affordable_context(config, options.slots, device, dtype, drafter, states)
        positions = pool_positions(options.slots, context)
    return {
        "slots": options.slots,
        "context": context,
        "positions": positions,
        "device": device,
        "dtype": dtype,
        "rings": plan_rings(config.ring_windows, context),
    }


def _affordable_context(
    config: ModelConfig, slots: int, device: torch.device, dtype: torch.dtype, drafter: DrafterMemory, states: int
) -> int:
    """Return the model's own context, or the longest that fits the memory beside drafter and states, in tokens."""
    budget = int((free_memory(device) - drafter.weights - states) * KV_SHARE)
    affordable = SlotMemory(config, dtype, drafter.per_token).longest_context(max(0, budget) // slots)
    if affordable >= config.context_length:
        return config.context_length
    context = affordable // CONTEXT_STEP * CONTEXT_STEP
    if context <= 0:
        raise CheckpointError(
            f"not enough memory for the KV of {counted(slots, 'slot')}; try fewer, or a smaller --dtype"
        )
    logger.warning(
        "the context is bounded by memory: %d tokens a slot instead of %d (--slots %d)",
        context,
        config.context_length,
        slots,
    )
    return context


def check_together(options: LoadOptions, config: ModelConfig, device: torch.device) -> None:
    """Check that there are devices for all ranks, and that the model can be divided among them.

    Raises:
        CheckpointError: there are not, or it cannot.
    """
    of = options.tensor_parallel
    check_shares(config, of)
    if of > 1 and device.type == "mps":
        raise CheckpointError(f"--tensor-parallel {of}: a Mac has one MPS device, so there is nothing to divide among")
    if device.type == "cuda" and of > torch.cuda.device_count():
        raise CheckpointError(f"--tensor-parallel {of}: there are {torch.cuda.device_count()} CUDA devices")


def on_one_device(config: ModelConfig, options: LoadOptions, device: torch.device) -> ModelConfig:
    """Return what of a model is on the device whose memory bounds it: all of it in host memory, and else a share."""
    return config if device.type == "cpu" else share_config(config, options.tensor_parallel)


def lead(
    config: ModelConfig, weights: Weights, sizes: KVSizes, states: HiddenStates | None, others: OtherRanks
) -> LeadingModel:
    """Make rank 0's model of its share of the weights, and join the other ranks, which have theirs.

    Args:
        config: the whole model's.
        weights: rank 0's share.
        sizes: of the KV.
        states: as of `Transformer`.
        others: the other ranks.
    """
    from runtime.devices.parallel.kv import DividedKV  # what no other model needs
    from runtime.nn.rank_model import LeadingModel

    kv = DividedKV(config, others.share.of, others.lines, **sizes)
    group = others.join(sizes["context"], sizes["positions"], sizes["device"])
    return LeadingModel(share_config(config, others.share.of), weights, kv, group, others.lines, states)
