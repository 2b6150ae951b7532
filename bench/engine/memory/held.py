"""Memory of small things that servers keep many of, beside what is counted of them.

    python -m bench.engine.memory.held [--only "stored"]

makes many of each kind in a process of its own, and prints for one of them the bytes that its bound counts, and those
by which the process's resident memory grew.  Kinds that are bounded by a number have no counted bytes: there, what as
many take as may be kept is what matters.  A kept answer of a request that may outlive its client is measured with its
request around it, which only a test can make: `tests/unit/web/storage/detached/test_run_kept.py`.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Made:
    """Many things of one kind; `held` keeps them, `counted` are the bytes that their bound counts, all together."""

    held: object
    counted: int | None = None


def stored(number: int) -> Made:
    """Store short answers in memory."""
    from web.storage.database import ObjectDatabase
    from web.storage.objects import Bounds, Kind, StoredObject

    database = ObjectDatabase(None, Bounds(2**34, 1e9), lambda: 0.0, lambda: 0.0)
    for i in range(number):
        body = json.dumps({"id": f"resp_{i:032}", "output": [f"answer number {i}"]}).encode()
        database.put(StoredObject(Kind.RESPONSE, f"resp_{i:032}", body, 0.0, "somebody", f"resp_{i - 1:032}", "m"))
    return Made(database, database.size)


def stored_with_metadata(number: int) -> Made:
    """Store short answers with as many short metadata as there may be."""
    from web.process.limits import MAX_METADATA
    from web.storage.database import ObjectDatabase
    from web.storage.objects import Bounds, Kind, StoredObject

    database = ObjectDatabase(None, Bounds(2**34, 1e9), lambda: 0.0, lambda: 0.0)
    metadata = {f"k{i}": str(i) for i in range(MAX_METADATA)}
    for i in range(number):
        database.put(StoredObject(Kind.RESPONSE, f"resp_{i:032}", b"{}", 0.0, "somebody", None, "m", metadata))
    return Made(database, database.size)


def _events(number: int, alternatives: int) -> Made:
    from actors.core.generation import Token
    from actors.generating.buffer import EventBuffer
    from actors.generating.unread import Unread
    from runtime.sampling.tokens import TokenLogprobs

    backlog = Unread().backlog("of a benchmark")
    buffer = EventBuffer(1, backlog)
    draw = random.Random(0)
    for i in range(number):
        top = tuple((draw.randrange(300, 10**5), -draw.random()) for _ in range(alternatives))
        logprobs = TokenLogprobs(-draw.random(), top) if alternatives else None
        buffer.put(Token(0, i + 300, f"word{i}", logprobs))
    return Made(buffer, backlog.held)


def unread_tokens(number: int) -> Made:
    """Leave tokens unread."""
    return _events(number, 0)


def unread_logprobs(number: int) -> Made:
    """Leave tokens unread, each with twenty alternatives."""
    return _events(number, 20)


def kept_logs(number: int) -> Made:
    """Keep the events of answers, without their requests."""
    from web.storage.detached.run import Run

    def run(i: int) -> Run:
        one = Run(f"cmpl-{i:032}", None)
        for word in range(10):
            one.log.append(b'data: {"text": "word %d"}\n\n' % word)
        return one

    runs = [run(i) for i in range(number)]
    return Made(runs, sum(one.held for one in runs))


def ram_blocks(number: int) -> Made:
    """Keep KV blocks of a small model in memory."""
    import torch

    from runtime.common.ownership import TaskOwner
    from runtime.kv.blocks import BLOCK_TOKENS, Block, block_key
    from runtime.kv.ram_tier import RamTier

    tier = RamTier(2**34, TaskOwner())
    parent = b"root"
    for i in range(number):
        tokens = tuple(range(1000 + i, 1000 + i + BLOCK_TOKENS))
        key = block_key(parent, tokens)
        tier.insert(Block(key, parent, tokens, torch.ones(4, 2, 2, BLOCK_TOKENS, 32)))
        parent = key
    return Made(tier, tier.statistics().bytes)


def grammars(number: int) -> Made:
    """Compile grammars of the largest schema that a request may have, about."""
    from actors.generating.grammars import compiler_of
    from runtime.grammar.grammar import Grammar, GrammarKind
    from runtime.loading.load import describe_model
    from runtime.loading.options import LoadOptions
    from runtime.store.resolve import resolve_model

    described, _ = describe_model(LoadOptions(resolve_model(None)), "embedded")
    compiler = compiler_of(described)
    properties = {f"name{i}": {"type": "string", "maxLength": 40} for i in range(800)}
    made = []
    for i in range(number):
        fields = properties | {f"own{i}": {"type": "integer"}}
        schema = {"type": "object", "properties": fields, "required": list(fields)}
        made.append(compiler.compile(Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema))))
    return Made((compiler, made))


def salvaged_tokens(number: int) -> Made:
    """Leave blocks that nobody was served yet."""
    from actors.kv.salvaged_tokens import SalvagedTokens
    from runtime.common.ownership import TaskOwner
    from runtime.kv.blocks import BLOCK_TOKENS
    from runtime.kv.token_chain import TokenChain

    left, chain = SalvagedTokens(TaskOwner()), TokenChain(b"root")
    chain.extend(range(number * BLOCK_TOKENS))
    left.leave(chain, [(0, number * BLOCK_TOKENS)])
    return Made(left)


def recorded(number: int) -> Made:
    """Have events wait for a recording's file."""
    from web.observability.recording.trace_events import WAITING, instant

    return Made([instant(WAITING, "something", i, request_id=f"cmpl-{i:032}", index=0) for i in range(number)])


KINDS: dict[str, tuple[Callable[[int], Made], int]] = {
    "stored answers": (stored, 10_000),
    "stored answers with metadata": (stored_with_metadata, 10_000),
    "unread tokens": (unread_tokens, 200_000),
    "unread tokens with log-probabilities": (unread_logprobs, 20_000),
    "kept answers, without their requests": (kept_logs, 10_000),
    "KV blocks in memory": (ram_blocks, 1000),
    "compiled grammars (at most 32)": (grammars, 16),
    "salvaged tokens (at most 16,384)": (salvaged_tokens, 16_384),
    "events for a recording (at most 65,536)": (recorded, 65_536),
}
"""How each kind is made, and how many are."""


def measure(kind: str) -> tuple[int | None, int]:
    """Return the counted bytes of all things of a kind, and those that they take; to be called in a fresh process."""
    make, number = KINDS[kind]
    make(1)  # what is made once, and imported
    gc.collect()
    process = psutil.Process()
    before = process.memory_info().rss
    made = make(number)
    gc.collect()
    return made.counted, process.memory_info().rss - before


def measured(only: str) -> Iterator[tuple[str, int, int | None, int]]:
    """Yield each kind, how many were made, and what `measure` says of it."""
    context = multiprocessing.get_context("spawn")
    for kind, (_, number) in KINDS.items():
        if only in kind:
            with context.Pool(1) as pool:
                yield kind, number, *pool.apply(measure, (kind,))


@click.command(help=__doc__)
@click.option("--only", default="", help="Kinds whose names have this text in them.")
def main(only: str) -> None:
    """Measure."""
    for kind, number, counted, taken in measured(only):
        each = "" if counted is None else f", counted {counted / number:.0f}, ratio {taken / counted:.2f}"
        click.echo(f"{kind}: {number} of them, {taken / 2**20:.1f} MiB; one takes {taken / number:.0f}{each}")


if __name__ == "__main__":
    main()
