"""Cost of sums over several processes, which a model divided by `--tensor-parallel` needs in each layer.

    python -m bench.engine.models.sums --width 1024

Two processes add up `[rows, width]` over gloo, as a layer does twice: after its attention and after its MLP.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path

import click
import torch

from runtime.devices.parallel.group import process_group, sums_of
from runtime.devices.parallel.share import Share

ROWS = (1, 64, 512)
WARM_UP = 20
CPU = torch.device("cpu")


def measure(rank: int, ranks: int, store: Path, width: int, times: int) -> None:
    """Add up many times, as one of the ranks; rank 0 prints what one sum took."""
    torch.set_num_threads(1)
    reduce = sums_of(process_group(Share(rank, ranks), store, CPU))
    for rows in ROWS:
        part, seconds = torch.zeros(rows, width), list[float]()
        for _ in range(WARM_UP + times):
            began = time.perf_counter()
            reduce(part)
            seconds.append(time.perf_counter() - began)
        if rank == 0:
            ordered = sorted(seconds[WARM_UP:])
            p50, p99 = statistics.median(ordered), ordered[int(0.99 * (len(ordered) - 1))]
            print(f"{rows:5} rows of {width}: p50 {1e3 * p50:.2f} ms, p99 {1e3 * p99:.2f} ms", flush=True)


@click.command()
@click.option("--ranks", type=click.IntRange(2), default=2, show_default=True)
@click.option("--width", type=int, default=1024, show_default=True, help="The model's; 1024 is that of the 0.6B shape.")
@click.option("--times", type=int, default=500, show_default=True)
def main(ranks: int, width: int, times: int) -> None:
    """Measure the sums of a layer."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        others = [context.Process(target=measure, args=(rank, ranks, store, width, times)) for rank in range(1, ranks)]
        for other in others:
            other.start()
        measure(0, ranks, store, width, times)
        for other in others:
            other.join()


if __name__ == "__main__":
    main()
