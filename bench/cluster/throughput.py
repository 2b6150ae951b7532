"""Tokens a second behind a cluster's front door, and of the same workers at their own addresses.

    python -m bench.cluster.throughput [--model FOLDER] [--workers 1 --workers 2] [--streams 4] [--rounds 6]

One cluster after the other, of so many workers each.  The same processes are asked in turns, now at the front door
first and now at the workers: what differs is who speaks HTTP, Dynamo's front door or each worker itself, on the same
machine.  A round is as many completions at once as there are streams, all of the same length.  On a CPU, the cores are
divided among the workers, one for each at least: with more workers than cores, or so, what is measured is how they get
in one another's way.

A model of a real shape is made by `python -m bench.engine.grow FOLDER`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import httpx
import trio

from bench.client.harness.figures import Better, Figure, Record, Sample
from bench.client.harness.machine import describe_machine, today
from bench.client.reports.report import write_report
from bench.cluster.clusters import open_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.cluster.clusters import Addresses

DOOR, DIRECT = "front door", "workers"
PATIENCE = 600.0  # seconds for one completion


@dataclass(frozen=True, slots=True)
class Load:
    """Load of one round: what is asked.

    Attributes:
        streams: for each worker.
        tokens: of each.
        rounds: of each cluster.
    """

    streams: int
    tokens: int
    rounds: int


class Unfinished(Exception):
    """A stream has ended without all of its tokens: what it took is no measure of anything."""


async def generate(client: httpx.AsyncClient, url: str, name: str, prompt: str, tokens: int) -> None:
    """Read a greedy completion that streams, to its end.

    Args:
        client: with connections to spare.
        url: of the server.
        name: of the model, as the server calls it.
        prompt: as text.
        tokens: to be generated, whatever the model makes of it.

    Raises:
        httpx.HTTPStatusError: the server refused.
        Unfinished: it broke off.
    """
    body = {"model": name, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    made = 0
    asked = body | {"stream_options": {"include_usage": True}}
    async with client.stream("POST", f"{url}/v1/completions", json=asked) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {") and (usage := json.loads(line[6:]).get("usage")):
                made = usage["completion_tokens"]
    if made != tokens:
        raise Unfinished(f"{url}: a stream has ended after {made or 'nobody knows how many'} tokens of {tokens}")


async def tokens_a_second(client: httpx.AsyncClient, urls: Sequence[str], name: str, load: Load, number: int) -> float:
    """The rate of all streams together, which are as many for each of these addresses."""
    streams = load.streams * len(urls)
    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        for stream in range(streams):
            prompt = f"# round {number}, stream {stream}\nimport os\n\n"
            nursery.start_soon(generate, client, urls[stream % len(urls)], name, prompt, load.tokens)
    return streams * load.tokens / (trio.current_time() - started)


async def measure(addresses: Addresses, load: Load, record: Record) -> None:
    """Add a cluster's rounds to the record; a first one, which is not in it, warms up."""
    workers = len(addresses.workers)
    places = {DOOR: [addresses.door] * workers, DIRECT: list(addresses.workers)}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=PATIENCE, limits=limits) as client:
        name = (await client.get(f"{addresses.door}/v1/models")).json()["data"][0]["id"]
        for number in range(-1, load.rounds):
            rates = dict[str, float]()
            for place in (DOOR, DIRECT) if number % 2 else (DIRECT, DOOR):
                rates[place] = await tokens_a_second(client, places[place], name, load, number)
                figure = Figure("throughput", rates[place], "tokens/s", Better.HIGHER, f"N = {workers}", x=workers)
                if number >= 0:
                    record.samples.append(Sample(place, number, figure))
            ratio = rates[DOOR] / rates[DIRECT]
            door, direct = (f"{rates[place]:.1f} tokens/s" for place in (DOOR, DIRECT))
            click.echo(f"N = {workers}: {door} behind the front door, {direct} without, {ratio:.3f} times")


async def run(model: str | None, sizes: Sequence[int], load: Load, out: Path) -> None:
    """Measure clusters of these sizes, and write the report and the plot."""
    record = Record(
        scenario="front-door",
        about="Throughput behind a cluster's front door, and at the workers' own addresses.",
        date=today(),
        parameters={
            "model": model or "embedded",
            "streams": load.streams,
            "tokens": load.tokens,
            "rounds": load.rounds,
        },
        machine=describe_machine(),
        targets={DOOR: "the address of `cede cluster`", DIRECT: "the same workers at their own addresses"},
    )
    for workers in sizes:
        threads = max(1, (os.cpu_count() or 1) // workers)
        flags = ["--slots", str(2 * load.streams), "--threads", str(threads), "--speculate", "off"]
        async with open_cluster(workers, *(["--model", model] if model else []), *flags) as addresses:
            await measure(addresses, load, record)
    write(record, out)


def write(record: Record, out: Path) -> None:
    """Write the record, its report and the plot into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    record.save(out / "front-door.json")
    click.echo(f"written: {', '.join(str(page) for page in write_report([record], out))}")


@click.command(help=__doc__)
@click.option("--model", help="As for `cede serve`; the embedded model by default.")
@click.option("--workers", "sizes", type=click.IntRange(1), multiple=True, default=(1, 2), show_default=True)
@click.option("--streams", type=click.IntRange(1), default=4, show_default=True, help="For each worker.")
@click.option("--tokens", type=click.IntRange(1), default=64, show_default=True, help="Of each stream.")
@click.option("--rounds", type=click.IntRange(1), default=6, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("bench-results"), show_default=True)
def main(model: str | None, sizes: tuple[int, ...], streams: int, tokens: int, rounds: int, out: Path) -> None:
    """Measure."""
    trio.run(run, model, sizes, Load(streams, tokens, rounds), out)


if __name__ == "__main__":
    main()
