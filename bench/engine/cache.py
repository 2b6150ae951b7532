"""The savings and the costs of the KV cache.

    python -m bench.engine.cache [--shape qwen3-0.6b] [--lengths 1024,4096]

runs an engine in this process on random weights of a real shape.  Reported are the time to the first token of a hit
against a full prefill, how fast KV is restored, and how much longer decode steps take while KV is written.  Restores
are compared with a plain copy of as many bytes in memory, and with reading the files while they are in the page
cache.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import asynccontextmanager
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import trio

from actors.config import EngineConfig
from actors.core.generation import Finished, GenerationRequest, Token
from actors.engine import open_engine
from actors.kv.config import CacheConfig
from actors.kv.prefix_cache import PrefixCache
from bench.engine.models.bare_model import BareModel
from bench.engine.models.shapes import random_model, shape
from runtime.common.units import format_size
from runtime.kv.blocks import BLOCK_TOKENS, Block, block_key, root_key
from runtime.kv.disk.tier import open_disk_tier
from runtime.sampling.params import SamplingParams
from runtime.step.device import select_device, select_dtype
from runtime.step.thread_executor import open_thread_executor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actors.engine import Engine
    from runtime.kv.cache import KVCache
    from runtime.kv.disk.tier import DiskTier
    from runtime.nn.model import Transformer
    from runtime.step.thread_executor import ThreadExecutor

IDS = count()


async def first_token(engine: Engine, prompt: tuple[int, ...]) -> tuple[float, int]:
    """Return the seconds to the first token of a prompt, and the number of its tokens that were cached."""
    spec = GenerationRequest(f"bench-{next(IDS)}", (prompt,), SamplingParams(temperature=0), max_tokens=1)
    started, seconds, cached = time.perf_counter(), 0.0, 0
    async with engine.open_request(spec) as request:
        async for event in request:
            if isinstance(event, Token):
                seconds = time.perf_counter() - started
            elif isinstance(event, Finished):
                cached = event.cached_tokens
    return seconds, cached


def prompt_of(length: int, seed: int, vocab: int) -> tuple[int, ...]:
    """Return a prompt of random tokens."""
    tokens: list[int] = torch.randint(0, vocab, (length,), generator=torch.Generator().manual_seed(seed)).tolist()
    return tuple(tokens)


@asynccontextmanager
async def engine_over(
    executor: ThreadExecutor[Transformer], ram: int, disk: DiskTier | None
) -> AsyncIterator[tuple[Engine, PrefixCache]]:
    """Open an engine of one slot with these tiers; `ram` is in bytes."""
    model = executor.model
    cache = PrefixCache(
        root_of(model.kv), BLOCK_TOKENS * model.kv.bytes_per_token, ram=ram, disk=disk, config=CacheConfig()
    )
    served = BareModel(model.config, model.context)
    async with open_engine(executor, served, EngineConfig(slots=1), cache) as engine:  # type: ignore[arg-type]
        yield engine, cache


def root_of(kv: KVCache) -> bytes:
    """Return the root key of the random model's blocks."""
    return root_key(fingerprint="random", dtype=str(kv.dtype), kv_shape=kv.row_shape)


async def wait_saved(cache: PrefixCache) -> None:
    """Wait until every block of every slot is in a tier."""
    while cache.statistics().unsaved_blocks:  # noqa: ASYNC110  # a benchmark may look now and then
        await trio.sleep(0.01)


async def measure_length(executor: ThreadExecutor[Transformer], length: int, folder: Path) -> None:
    """Print the figures for one prompt length."""
    model = executor.model
    vocab = model.config.vocab_size
    nbytes = length // BLOCK_TOKENS * BLOCK_TOKENS * model.kv.bytes_per_token
    # One token more than whole blocks: a hit restores all of them, and computes one row, as a resident prompt does.
    prompt, other = prompt_of(length + 1, length, vocab), prompt_of(BLOCK_TOKENS, 1, vocab)
    shape = (*model.kv.row_shape[:3], BLOCK_TOKENS, model.kv.row_shape[3])
    tier = partial(open_disk_tier, folder, root_of(model.kv), shape=shape, dtype=model.kv.dtype, budget=1 << 40)
    with tier(queue_blocks=1 << 16) as disk:
        async with engine_over(executor, 1 << 40, None) as (engine, _):
            await first_token(engine, prompt_of(length + 1, length + 1, vocab))  # warm-up
        async with engine_over(executor, 1 << 40, disk) as (engine, cache):
            full, _ = await first_token(engine, prompt)
            resident = statistics.median([(await first_token(engine, prompt))[0] for _ in range(3)])
            await wait_saved(cache)
            ram = await hits(engine, prompt, other, cache)
        disk.flush(600)
    with tier() as disk:
        async with engine_over(executor, 0, disk) as (engine, cache):
            from_disk = await hits(engine, prompt, other, cache)
    copying, reading = copy_seconds(nbytes), read_seconds(folder)
    print(f"\n{length} tokens, {format_size(nbytes)} of KV; full prefill {full:.2f} s")
    print(f"  resident  {resident * 1e3:8.1f} ms   {full / resident:8.0f} times faster")
    for name, (seconds, cached), plain in (("RAM", ram, copying), ("disk", from_disk, reading)):
        print(
            f"  {name:<8}  {seconds * 1e3:8.1f} ms   {full / seconds:8.0f} times faster, {cached} cached; "
            f"restored at {nbytes / (seconds - resident) / 1e9:.2f} GB/s, plain {nbytes / plain / 1e9:.2f}, "
            f"ratio {plain / (seconds - resident):.2f}"
        )


async def hits(
    engine: Engine, prompt: tuple[int, ...], other: tuple[int, ...], cache: PrefixCache, rounds: int = 3
) -> tuple[float, int]:
    """Return the median seconds to the first token of `prompt` after `other` took its slot, and the tokens cached."""
    measured = []
    for _ in range(rounds):
        await first_token(engine, other)
        await wait_saved(cache)
        measured.append(await first_token(engine, prompt))
    return statistics.median(seconds for seconds, _ in measured), measured[-1][1]


async def measure_writer(executor: ThreadExecutor[Transformer], folder: Path, tokens: int) -> None:
    """Print how much longer a decode step takes while the disk tier's writer is kept busy."""
    model = executor.model
    shape = (*model.kv.row_shape[:3], BLOCK_TOKENS, model.kv.row_shape[3])
    root, data = root_of(model.kv), torch.ones(shape, dtype=model.kv.dtype)
    prompt = prompt_of(BLOCK_TOKENS, 2, model.config.vocab_size)
    with open_disk_tier(folder, root, shape=shape, dtype=model.kv.dtype, budget=1 << 32) as disk:
        async with engine_over(executor, 0, None) as (engine, _), trio.open_nursery() as nursery:
            await token_gaps(engine, prompt, tokens)
            paces = []
            for _ in range(3):
                quiet = statistics.median(await token_gaps(engine, prompt, tokens))
                enough = trio.Event()
                nursery.start_soon(keep_writing, disk, root, data, enough)
                busy = statistics.median(await token_gaps(engine, prompt, tokens))
                enough.set()
                paces.append((busy / quiet, quiet, busy))
            written = disk.statistics().written
    ratio, quiet, busy = statistics.median_low(paces)
    print(
        f"\na decode step takes {quiet * 1e3:.1f} ms, with the writer busy {busy * 1e3:.1f} "
        f"(ratio {ratio:.3f}, aim under 1.05; "
        f"{written} blocks of {format_size(data.nbytes)} written)"
    )


async def keep_writing(disk: DiskTier, root: bytes, data: torch.Tensor, enough: trio.Event) -> None:
    """Offer the disk tier new blocks as fast as it takes them."""
    for number in count(time.monotonic_ns()):
        if enough.is_set():
            return
        tokens = (number & 0xFFFFFFFF, *range(1, BLOCK_TOKENS))
        if not disk.put_nowait(Block(block_key(root, tokens), root, tokens, data)):
            await trio.sleep(0.005)
        await trio.lowlevel.checkpoint()


async def token_gaps(engine: Engine, prompt: tuple[int, ...], tokens: int) -> list[float]:
    """Return the seconds between the tokens of one generation."""
    spec = GenerationRequest(f"bench-{next(IDS)}", (prompt,), SamplingParams(temperature=0), max_tokens=tokens)
    times: list[float] = []
    async with engine.open_request(spec) as request:
        async for event in request:
            if isinstance(event, Token):
                times.append(time.perf_counter())
    return [after - before for before, after in pairwise(times)]


def copy_seconds(nbytes: int) -> float:
    """Return the seconds of a copy of `nbytes` bytes, between memory that was written before."""
    source, target = torch.ones(nbytes, dtype=torch.uint8), torch.ones(nbytes, dtype=torch.uint8)
    times = []
    for _ in range(5):
        started = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def read_seconds(folder: Path) -> float:
    """Return the seconds to read all block files, which are in the page cache."""
    files = sorted(folder.rglob("*.safetensors"))
    times = []
    for _ in range(3):
        started = time.perf_counter()
        for file in files:
            file.read_bytes()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


async def main() -> None:
    """Parse the arguments and measure each length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="qwen3-0.6b")
    parser.add_argument("--lengths", default="1024,4096")
    parser.add_argument("--tokens", type=int, default=30, help="decoded while the writer is busy")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    given = parser.parse_args()
    lengths = [int(length) for length in given.lengths.split(",")]
    config, device = shape(given.shape), select_device(given.device)
    dtype = select_dtype(given.dtype, device, "bfloat16")
    print(f"{given.shape} on {device} in {dtype}, {torch.get_num_threads()} threads")
    load = partial(random_model, config, slots=1, context=max(lengths) + 64, device=device, dtype=dtype)
    async with open_thread_executor(load) as executor:
        for length in lengths:
            with tempfile.TemporaryDirectory() as folder:
                await measure_length(executor, length, Path(folder))
        with tempfile.TemporaryDirectory() as folder:
            await measure_writer(executor, Path(folder), given.tokens)


if __name__ == "__main__":
    trio.run(main)
