"""Several ranks in one process, each on a thread of its own, that compute a small checkpoint together."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import Pipe
from pathlib import Path

import outcome
import torch
import torch._C._distributed_c10d as c10d

from runtime.checkpoint.open import open_checkpoint
from runtime.devices.parallel.group import Group, meet, sums_of
from runtime.devices.parallel.kv import DividedKV, KVSizes
from runtime.devices.parallel.lines import Line, Lines
from runtime.devices.parallel.share import Share, share_config
from runtime.kv.cache import KVCache
from runtime.kv.rings import SLACK, plan_rings
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.rank_model import FollowingModel, LeadingModel
from runtime.nn.weights import Weights, load_weights
from runtime.step.step import Segment, StepResult
from tests.models.step_driver import CPU, run


class Ranks:
    """Rank 0's model, and what became of the others.

    Attributes:
        model: rank 0's.
        followers: the others', by rank.
        ends: what became of each of these, once all have ended.
    """

    def __init__(self) -> None:
        self.model: LeadingModel
        self.followers: dict[int, FollowingModel] = {}
        self.ends: dict[int, outcome.Outcome[None]] = {}

    def run(self, segments: Sequence[Segment], cancels: Mapping[int, Collection[Segment]] | None = None) -> StepResult:
        """Run a step as `tests.models.step_driver.run` does, on all ranks."""
        with self.model.group.step(segments) as agreed:
            return run(self.model, agreed, cancels)


@contextmanager
def open_ranks(
    folder: Path,
    of: int = 2,
    *,
    slots: int = 4,
    context: int = 256,
    quantize: Quantization = Quantization.NONE,
    slack: int = SLACK,
) -> Iterator[Ranks]:
    """Open the model in `folder` on so many ranks, which all end with the scope."""
    checkpoint = open_checkpoint(folder)
    config = checkpoint.config
    own = share_config(config, of)
    pipes = [Pipe() for _ in range(1, of)]
    store = c10d.HashStore()
    sizes: KVSizes = {
        "slots": slots,
        "context": context,
        "positions": slots * context,
        "device": CPU,
        "dtype": torch.float32,
        "rings": plan_rings(config.window, context, slack),
    }
    ranks = Ranks()

    def load(share: Share) -> tuple[Weights, Group]:
        weights = load_weights(
            checkpoint,
            device=CPU,
            dtype=torch.float32,
            formats=choose_formats(quantize, CPU, torch.float32),
            share=share,
        )
        return weights, Group(share, sums_of(meet(store, share, CPU)))

    def follow(rank: int) -> None:
        def work() -> None:
            weights, group = load(Share(rank, of))
            ranks.followers[rank] = model = FollowingModel(own, weights, KVCache(own, **sizes), group)
            model.follow(Line(pipes[rank - 1][1]))

        ranks.ends[rank] = outcome.capture(work)

    threads = [threading.Thread(target=follow, args=(rank,)) for rank in range(1, of)]
    for thread in threads:
        thread.start()
    try:
        weights, group = load(Share(0, of))
        lines = Lines([Line(ours) for ours, _ in pipes])
        kv = DividedKV(config, of, lines, **sizes)
        ranks.model = LeadingModel(own, weights, kv, group, lines)
        with torch.inference_mode():
            yield ranks
    finally:
        for ours, _ in pipes:
            ours.close()
        for thread in threads:
            thread.join()
