"""`cede doctor --self-test`: the checks, in their order, on the device that is there.

Each is made whatever became of those before it, and what it raises is its finding.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import trio

from actors.config import EngineConfig
from actors.core.life import State
from actors.engine import open_engine
from actors.selftest.cancel_checks import CHUNK, DRAFTS, QUEUE, CancelChecks, Limits, judge
from actors.selftest.cancel_checks import SLOTS as ENGINE_SLOTS
from actors.selftest.step_aim import NTH, step_in
from runtime.checkpoint.stored import CODE_GROUPS
from runtime.errors import CheckpointError
from runtime.loading.drafters import plan_drafter
from runtime.loading.load import as_loaded, describe_model, load_model
from runtime.loading.served import DRAFT_MODELS, Proposer
from runtime.nn.matrices.quantization import Quantization
from runtime.selftest.findings import Mismatch, NotHere, from_error, passed, without_paths
from runtime.selftest.next_step import check_next_step
from runtime.selftest.parity import (
    SLOTS,
    Parity,
    cancel_limits,
    check_codes,
    check_products,
    check_quantised,
    open_parity,
)
from runtime.selftest.rates import (
    READ_BYTES,
    measure_bandwidth,
    measure_decode,
    measure_prefill,
    measure_products,
    threads,
)
from runtime.selftest.readbacks import check_readbacks
from runtime.selftest.single_rows import check_few_states, check_single_rows
from runtime.step.device import select_device
from runtime.step.thread_executor import open_thread_executor
from web.http.listeners import open_listeners
from web.serving.server import Entrance, serve_engine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from actors.engine import Engine
    from runtime.checkpoint.open import Checkpoint
    from runtime.loading.drafters import DrafterPlan
    from runtime.loading.options import LoadOptions
    from runtime.loading.served import ServedModel
    from runtime.nn.model import Transformer
    from runtime.selftest.findings import Figures, Finding
    from runtime.step.thread_executor import ThreadExecutor

HANG_TIMEOUT = 60.0  # seconds without the end of a layer
CONTEXT = 1024  # tokens that a slot has room for
FALLBACK = "PYTORCH_ENABLE_MPS_FALLBACK"

# What the prompts are made of: a text that every tokenizer can read, and a model of code has an opinion of.
TEXT = '''
import os
import sys


class Lines:
    """The lines of a file, one at a time."""

    def __init__(self, path):
        self.path = path
        self.count = 0

    def __iter__(self):
        with open(self.path) as file:
            for line in file:
                self.count += 1
                yield line.rstrip()


def main(argv):
    for name in sorted(os.listdir(argv[1])):
        lines = Lines(os.path.join(argv[1], name))
        longest = max((len(line) for line in lines), default=0)
        print(f"{name}: {lines.count} lines, the longest of {longest} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
'''


# What is compared with the reference, whatever the model.
PARITY: dict[str, Callable[[Parity], Figures]] = {
    "chunks": Parity.chunks,
    "mixed batch": Parity.mixed_batch,
    "trim and resume": Parity.trim_and_resume,
    "moved KV": Parity.moved_kv,
    "verify": Parity.verify,
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the checks; smaller ones are for tests.

    Attributes:
        prompt, tokens: of the text whose scores are compared.
        rounds: of each kind of cancel.
        generated: tokens of each request that is cancelled or compared.
        streams: sequences that decode together, several numbers of them.
        depth, steps: where decoding is measured, and for how long.
        prefill: tokens of the prompt whose reading is measured.
        read_bytes: summed up to measure the memory.
    """

    prompt: int = 128
    tokens: int = 32
    rounds: int = 3
    generated: int = 48
    streams: tuple[int, ...] = (1, 4, 8)
    depth: int = 64
    steps: int = 48
    prefill: int = 512
    read_bytes: int = READ_BYTES

    @property
    def slots(self) -> int:
        """Number of slots that the model needs."""
        return max(SLOTS, ENGINE_SLOTS, *self.streams)


async def self_test(options: LoadOptions, sizes: Sizes, tell: Callable[[Finding], None]) -> None:
    """Make every check, and tell each finding as it comes.

    Args:
        options: the model, the device and the dtype; slots and context are chosen here.
        sizes: see there.
        tell: called once for each check.

    Raises:
        CheckpointError: the model cannot be used, its context is too short, or the device is not there.
    """
    described, checkpoint = describe_model(options, "self-test")
    longest = checkpoint.config.context_length
    if longest < CONTEXT:
        raise CheckpointError(f"the self-test needs a context of {CONTEXT} tokens; the model's is {longest}")
    options = replace(options, slots=sizes.slots, context=CONTEXT)
    plan = plan_drafter(options, checkpoint, described.tokenizer)
    text = described.tokenizer.encode(TEXT, add_special_tokens=False)
    device = select_device(options.device)
    checks = _Checks(tell)
    # Not only those that nobody has seen yet: PyTorch warns when an operation falls back to the CPU.
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        started = time.perf_counter()
        try:
            load = partial(load_model, options, checkpoint, plan)
            async with open_thread_executor(load, plan.load, hang_timeout=HANG_TIMEOUT) as executor:
                tell(passed("model", "load", time.perf_counter() - started, {"threads": await executor.call(threads)}))
                await _parity(checks, executor, options, checkpoint, plan, text, sizes)
                served = as_loaded(described, executor.model)
                await _cancellation(checks, executor, served, plan.proposer, text, sizes)
                await _throughput(checks, executor, sizes)
        except Exception as error:  # where loading fails, there is nothing to check
            tell(from_error("model", "load", time.perf_counter() - started, error))
        await checks.make("operators", "no fallback to the CPU", partial(check_fallback, device.type, warned))


class _Checks:
    """Makes checks, one after the other."""

    def __init__(self, tell: Callable[[Finding], None]) -> None:
        self._tell = tell

    async def make(self, group: str, name: str, check: Callable[[], Awaitable[Figures]]) -> None:
        """Make a check and tell its finding, whatever becomes of it."""
        started = time.perf_counter()
        try:
            figures = await check()
        except Exception as error:
            self._tell(from_error(group, name, time.perf_counter() - started, error))
        else:
            self._tell(passed(group, name, time.perf_counter() - started, figures))


async def _parity(
    checks: _Checks,
    executor: ThreadExecutor[Transformer],
    options: LoadOptions,
    checkpoint: Checkpoint,
    plan: DrafterPlan,
    text: Sequence[int],
    sizes: Sizes,
) -> None:
    """Check what the device computes against the reference."""
    opened: list[Parity] = []

    async def reference() -> Figures:
        prompt = text[: sizes.prompt]
        opened.append(
            await executor.call(lambda: open_parity(executor.model, options, checkpoint, plan, prompt, sizes.tokens))
        )
        return {"prompt_tokens": len(prompt), "tokens": sizes.tokens}

    async def compared(check: Callable[[Parity], Figures]) -> Figures:
        if not opened:
            raise NotHere("there is no reference to compare with")
        return await executor.call(lambda: check(opened[0]))

    await checks.make("parity", "reference", reference)
    for name, check in PARITY.items():
        await checks.make("parity", name, partial(compared, check))
    await checks.make("parity", "drafting module", partial(compared, lambda parity: parity.module(plan)))
    await checks.make("parity", "single rows", partial(executor.call, partial(check_single_rows, executor.model)))
    await checks.make("parity", "few states", partial(executor.call, partial(check_few_states, executor.model)))
    await checks.make("parity", "steps ahead", partial(executor.call, partial(check_next_step, executor.model)))
    for group in CODE_GROUPS:
        codes = partial(check_codes, group, executor.model)
        await checks.make("parity", f"int4 by {group} products", partial(executor.call, codes))
    for bits in (Quantization.INT8, Quantization.INT4):
        products = partial(check_products, bits, executor.model)
        await checks.make("parity", f"{bits} products", partial(executor.call, products))
        quantised = partial(check_quantised, options=options, checkpoint=checkpoint, quantization=bits)
        await checks.make("parity", f"{bits} model", partial(compared, quantised))


async def _cancellation(
    checks: _Checks,
    executor: ThreadExecutor[Transformer],
    served: ServedModel,
    proposer: Proposer,
    text: Sequence[int],
    sizes: Sizes,
) -> None:
    """Cancels by the engine, then by a socket."""
    layers, tie = cancel_limits(executor.model)
    config = EngineConfig(
        ENGINE_SLOTS, QUEUE, chunk_tokens=CHUNK, speculate=proposer, draft_tokens=DRAFTS, burst_seconds=None
    )  # of which each step can be aimed at
    async with open_engine(executor, served, config) as engine:
        cancels = CancelChecks(engine, text, Limits(layers, tie), tokens=sizes.generated, rounds=sizes.rounds)

        async def cancel_in(phase: State) -> Figures:
            if phase in (State.DRAFT, State.VERIFY) and proposer not in (Proposer.MTP, *DRAFT_MODELS):
                raise NotHere("no model drafts for this one")
            return await cancels.cancel_in(phase)

        await checks.make("cancellation", "queued", cancels.cancel_queued)
        for phase in NTH:
            await checks.make("cancellation", f"in {phase}", partial(cancel_in, phase))
        for phase in (State.PREFILL, State.DECODE):
            hang_up = partial(hang_up_in, phase, engine, cancels.prompt(5 * CHUNK), layers)
            await checks.make("cancellation", f"hang-up in {phase}", hang_up)


async def _throughput(checks: _Checks, executor: ThreadExecutor[Transformer], sizes: Sizes) -> None:
    """Measure what the device reaches, and what decoding and prefill make of it."""
    model = executor.model
    measures: dict[str, Callable[[], Figures]] = {
        "read bandwidth": partial(measure_bandwidth, model, sizes.read_bytes),
        "matrix products": partial(measure_products, model),
        **{
            f"decode, {streams} streams": partial(measure_decode, model, streams, sizes.depth, sizes.steps)
            for streams in sizes.streams
        },
        "prefill": partial(measure_prefill, model, sizes.prefill),
        "one read a step": partial(check_readbacks, model),
    }
    for name, measure in measures.items():
        await checks.make("throughput", name, partial(executor.call, measure))


async def check_fallback(device: str, warned: Sequence[warnings.WarningMessage]) -> Figures:
    """Raise Mismatch if PyTorch was allowed to compute on the CPU what MPS lacks, or has."""
    if device != "mps":
        raise NotHere("the device is not mps")
    if os.environ.get(FALLBACK, "0") != "0":
        raise Mismatch(f"{FALLBACK} is set: what MPS lacks would be computed on the CPU, unseen")
    texts = [without_paths(str(warning.message)) for warning in warned]
    told = [text for text in texts if "fall back" in text or "fallback" in text]
    if told:
        raise Mismatch(f"PyTorch has warned of {len(told)} operations: {told[0]}")
    return {"warnings": len(texts)}


TOKENS = 200  # asked for, of which most will not be generated


async def hang_up_in(phase: State, engine: Engine, prompt: Sequence[int], max_layers: int) -> Figures:
    """Ask over HTTP for a stream, and close the socket while a step of that kind runs.

    Raises:
        Mismatch: the receipt says otherwise than it should, or there is none.
    """
    stop = trio.Event()
    async with open_listeners("127.0.0.1", 0) as listeners, trio.open_nursery() as serving:
        await serving.start(serve_engine, engine, listeners, stop, Entrance())
        host, port, *_ = listeners[0].socket.getsockname()
        async with await trio.open_tcp_stream(host, port) as client:
            await client.send_all(_request(prompt))
            await step_in(engine, phase)
            (victim,) = engine.requests()
            closed_at = time.time()
        await engine.wait_all_ended()
        stop.set()
    receipts = [receipt for receipt in engine.receipts(1) if receipt.request_id == victim.id]
    if not receipts:
        raise Mismatch("the hang-up has left no receipt")
    figures = judge(receipts[0], phase.value, max_layers)
    assert receipts[0].slot_freed_at is not None
    engine.check_integrity()
    return {
        "close_to_cancel_ms": 1e3 * max(0.0, receipts[0].detected_at - closed_at),
        "close_to_slot_free_ms": 1e3 * (receipts[0].slot_freed_at - closed_at),
        **figures,
    }


def _request(prompt: Sequence[int]) -> bytes:
    asked = {"prompt": list(prompt), "max_tokens": TOKENS, "stream": True, "temperature": 0, "ignore_eos": True}
    body = json.dumps(asked | {"cache_prompt": False, "speculate": False}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body
