"""Opening of an engine over a model's files: weights on a device thread, KV in its tiers, and the engine over both.

It is what `cede serve` does, and what `actors.model.open_model` does with a model's name alone.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import trio

from actors.config import EngineConfig
from actors.engine import Engine, open_engine
from actors.generating.grammars import ThreadedGrammars, compiler_of
from actors.kv.config import CacheConfig, TierOptions
from actors.kv.opening import open_prefix_cache
from runtime.checkpoint.sampling_defaults import SamplingOptions, sampling_defaults
from runtime.errors import CheckpointError
from runtime.kv.disk.blocks import DiskBlocks
from runtime.loading.drafters import plan_drafter
from runtime.loading.load import adapts_threads, as_loaded, describe_model, load_model
from runtime.step.thread_executor import open_thread_executor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from actors.kv.prefix_cache import PrefixCache
    from runtime.checkpoint.open import Checkpoint
    from runtime.checkpoint.sampling_defaults import SamplingDefaults
    from runtime.loading.options import LoadOptions
    from runtime.loading.others import OtherRanks
    from runtime.nn.model import Transformer
    from runtime.step.thread_executor import ModelWrapper, ThreadExecutor


@asynccontextmanager
async def open_loaded(
    load: LoadOptions,
    name: str,
    config: EngineConfig | None = None,
    *,
    sampling: SamplingDefaults | None = None,
    tiers: TierOptions | None = None,
    cache: CacheConfig | None = None,
    hang_timeout: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    others: OtherRanks | None = None,
    wrap: ModelWrapper = lambda model, *, drafting: model,
    open_blocks: Callable[..., DiskBlocks] = DiskBlocks,
) -> AsyncIterator[tuple[Engine, ThreadExecutor[Transformer]]]:
    """Load a model, and open an engine over it; with it comes what runs its steps.

    Args:
        load: what to load, and in which form; its slots are the engine's, and so is what drafts.
        name: of the model, as it is shown.
        config: how the engine shares its device.
        sampling: what requests that do not say otherwise sample by; None for what the model's files recommend.
        tiers: where KV is kept outside the slots.
        cache: how it is kept.
        hang_timeout: as of `open_thread_executor`.
        progress: of the weights' loading, in bytes done and in all.
        others: the ranks that compute the model together with this process.
        wrap: as of `open_thread_executor`.
        open_blocks: as of `open_prefix_cache`.

    Raises:
        CheckpointError: the model, or what is to draft for it, cannot be loaded, or its files change meanwhile.
        KVFolderError: the disk tier's folder cannot be used.
    """
    if load.tensor_parallel > 1 and others is None:
        raise CheckpointError("tensor_parallel: a model that several processes compute is opened by `cede serve` alone")
    described, checkpoint = await trio.to_thread.run_sync(describe_model, load, name)
    drafter = await trio.to_thread.run_sync(plan_drafter, load, checkpoint, described.tokenizer)
    identity = await trio.to_thread.run_sync(checkpoint.fingerprint)
    facts = replace(described.facts, fingerprint=identity)
    async with (
        open_thread_executor(
            partial(load_model, load, checkpoint, drafter, progress, others),
            drafter.load,
            wrap=wrap,
            hang_timeout=hang_timeout,
            adapt_threads=adapts_threads(load),
            around=nullcontext if others is None else others.step,
        ) as executor,
        _open_cache(load, checkpoint, identity, executor.model, tiers, cache, open_blocks) as prefix_cache,
        open_engine(
            executor,
            replace(as_loaded(described, executor.model), facts=facts, sampling=sampling or _recommended(checkpoint)),
            replace(config or EngineConfig(), slots=load.slots, speculate=drafter.proposer),
            prefix_cache,
            ThreadedGrammars(compiler_of(described)),
        ) as engine,
    ):
        yield engine, executor


def _open_cache(
    load: LoadOptions,
    checkpoint: Checkpoint,
    identity: str,
    model: Transformer,
    tiers: TierOptions | None,
    cache: CacheConfig | None,
    open_blocks: Callable[..., DiskBlocks],
) -> AbstractAsyncContextManager[PrefixCache]:
    """Open the cache for the KV of a model as it was loaded."""
    return open_prefix_cache(
        tiers or TierOptions(),
        cache or CacheConfig(),
        checkpoint,
        identity,
        model.kv,
        model.buffers,
        quantization=load.quantize.identity,
        rope_factors=checkpoint.config.rope_factors(model.kv.context),
        deterministic=load.is_deterministic,
        open_blocks=open_blocks,
    )


def _recommended(checkpoint: Checkpoint) -> SamplingDefaults:
    return sampling_defaults(checkpoint.generation, SamplingOptions())
