"""Traffic of a cluster of many workers: python -m tests.sim.cluster.growth --workers 10 100 1000 --doors 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.sim.cluster.growth.model import Counted, Load, grow


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; its exit status."""
    load = Load()
    parser = argparse.ArgumentParser(prog="python -m tests.sim.cluster.growth", description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--doors", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=load.prompt, help="tokens of a request")
    parser.add_argument("--output", type=int, default=load.output, help="tokens of an answer")
    parser.add_argument("--successors", type=float, default=load.successors, help="share of requests with supersede")
    options = parser.parse_args(arguments)
    load = Load(prompt=options.prompt, output=options.output, successors=options.successors)
    counts = [grow(workers, options.doors, load) for workers in options.workers]
    print("\n".join(table(options.workers, counts)))
    return 0


def table(workers: Sequence[int], counts: Sequence[Counted]) -> list[str]:
    """The lines of a table: of each kind of message how many there are, and their bytes."""
    head = "| | " + " | ".join(f"{number} workers" for number in workers) + " |"
    rows = [head, "|---" * (len(workers) + 1) + "|"]
    for name in counts[0].messages:
        cells = [f"{one.messages[name]:,} ({_bytes(one.size[name])})" for one in counts]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    for name in counts[0].most:
        rows.append(f"| {name}: at the busiest process | " + " | ".join(f"{one.most[name]:,}" for one in counts) + " |")
    return rows


def _bytes(count: int) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:.3g} GB"


if __name__ == "__main__":
    sys.exit(main())
