"""The cost of each chunk of a long prompt against the tokens before it, and the memory of full slots.

    python -m bench.engine.scaling [--chunks 16] [--slots 4] [--out FOLDER]

A chunk costs the same wherever it lies, except for attention, which reads all that lies before it.  So seconds against
position are a straight line, and anything that grows faster would show as a curve.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import trio
from matplotlib.figure import Figure as Picture  # and no pyplot, which keeps every picture alive

from bench.engine.models.open_models import MODELS, ModelSpec, open_model
from runtime.selftest.rates import CHUNK, decode, prefill, random_prompt, seconds_per_step, slot_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.nn.model import Transformer

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Line:
    """Seconds of a chunk by the tokens before it, fitted by least squares.

    Attributes:
        constant: seconds without attention to what lies before.
        slope: additional seconds for each token before.
        curved: what a parabola through the same points adds to the line at the last chunk, as a share of the line.
    """

    constant: float
    slope: float
    curved: float

    @classmethod
    def through(cls, before: Sequence[int], seconds: Sequence[float]) -> Line:
        """Return the line that fits best."""
        slope, constant = np.polyfit(before, seconds, 1)
        parabola = np.polyfit(before, seconds, 2)
        end = constant + slope * before[-1]
        return cls(float(constant), float(slope), float((np.polyval(parabola, before[-1]) - end) / end))


def chunk_seconds(model: Transformer, length: int, rounds: int) -> list[float]:
    """Return the seconds of each chunk of a prompt, the median over the rounds."""
    taken = [
        [result.finished_at - result.started_at for result in prefill(model, 0, random_prompt(model, length, number))]
        for number in range(rounds)
    ]
    return [statistics.median(chunk) for chunk in zip(*taken, strict=True)]


def draw(title: str, before: Sequence[int], seconds: Sequence[float], line: Line) -> Picture:
    """Plot the measurements and the line through them."""
    picture = Picture(figsize=(7.0, 4.0), layout="constrained")
    axes = picture.subplots()
    axes.plot(before, seconds, "o", label=f"a chunk of {CHUNK} tokens")
    axes.plot(before, [line.constant + line.slope * tokens for tokens in before], "-", label="straight line")
    axes.axhline(line.constant, linestyle=":", color="gray", label="without attention to what lies before")
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.set_xlabel("tokens before the chunk")
    axes.set_ylabel("s")
    axes.grid(axis="y", alpha=0.3)
    axes.legend()
    return picture


def measure(model: Transformer, length: int, slots: int, tokens: int, rounds: int, out: Path) -> None:
    """Print the figures and write the picture.  To be called on the device thread."""
    prefill(model, 0, random_prompt(model, CHUNK, 1))  # warm-up
    before = list(range(0, length, CHUNK))
    seconds = chunk_seconds(model, length, rounds)
    line = Line.through(before, seconds)
    print(
        f"{length} tokens in chunks of {CHUNK}: {sum(seconds):.1f} s; a chunk {line.constant:.3f} s and "
        f"{line.slope * 1000:.4f} s for every 1000 tokens before it; curvature {line.curved:+.1%} of the last chunk"
    )
    for slot in range(1, slots):
        model.kv.copy(0, slot, 0, length, slot_pages(model, 0), slot_pages(model, slot))
    step = seconds_per_step(decode(model, slots, length, tokens))
    print(
        f"{slots} streams, {length} tokens deep: {slots / step:.1f} tokens/s; "
        f"KV {model.kv.nbytes / GIB:.2f} GiB, resident in all {psutil.Process().memory_info().rss / GIB:.2f} GiB"
    )
    out.mkdir(parents=True, exist_ok=True)
    draw(f"Prefill, {model.kv.dtype}", before, seconds, line).savefig(out / "scaling.png", dpi=150)


async def main() -> None:
    """Parse the arguments, load the model, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen3-0.6b", help=MODELS)
    parser.add_argument("--chunks", type=int, default=16, help=f"of {CHUNK} tokens each: the prompt")
    parser.add_argument("--slots", type=int, default=4, help="filled to that length")
    parser.add_argument("--tokens", type=int, default=8, help="decoded by each behind it")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    given = parser.parse_args()
    length = given.chunks * CHUNK
    spec = ModelSpec(given.model, given.slots, length + given.tokens, given.dtype, given.device)
    async with open_model(spec) as (executor, _):
        sizes = (length, given.slots, given.tokens, given.rounds)
        await executor.call(lambda: measure(executor.model, *sizes, given.out))


if __name__ == "__main__":
    trio.run(main)
