"""What a server's instruments cost: its throughput while all of them are in use, as a ratio within one run.

    python -m bench.engine.instruments [--model FOLDER] [--streams 4] [--rounds 5] [--tokens 256]

Two servers take turns.  One is left alone.  The other records all that its engine does (`--record`), has its metrics
fetched each second, as Prometheus does, and its events followed, as the page does.
"""

from __future__ import annotations

import statistics
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import httpx
import trio

from bench.engine.serving import open_server, throughput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SCRAPE_SECONDS = 1.0


@asynccontextmanager
async def watched(url: str) -> AsyncIterator[None]:
    """Fetch a server's metrics each second and follow its events, while the scope lasts."""
    async with httpx.AsyncClient(base_url=url, timeout=60) as client, trio.open_nursery() as nursery:
        following = trio.Event()
        nursery.start_soon(_scrape, client)
        nursery.start_soon(_follow, client, following)
        await following.wait()
        yield
        nursery.cancel_scope.cancel()


async def _scrape(client: httpx.AsyncClient) -> None:
    while True:
        (await client.get("/metrics")).raise_for_status()
        await trio.sleep(SCRAPE_SECONDS)


async def _follow(client: httpx.AsyncClient, following: trio.Event) -> None:
    async with client.stream("GET", "/v1/events") as response:
        response.raise_for_status()
        async for _ in response.aiter_raw():
            following.set()


async def measure(model: str | None, streams: int, rounds: int, tokens: int, folder: Path) -> None:
    """Run all rounds, and print what came of them."""
    chosen = [*(["--model", model] if model else []), "--slots", str(streams), "--speculate", "off"]
    async with open_server(*chosen) as alone, open_server(*chosen, "--record", str(folder / "record.json")) as observed:
        ratios = []
        async with httpx.AsyncClient(timeout=600) as client:
            for number in range(-1, rounds):  # the first one only warms up
                client.base_url = httpx.URL(alone)
                bare = await throughput(client, streams, tokens)
                client.base_url = httpx.URL(observed)
                async with watched(observed):
                    used = await throughput(client, streams, tokens)
                if number >= 0:
                    ratios.append(used / bare)
                    click.echo(f"round {number}: {bare:.1f} tokens/s alone, {used:.1f} watched, {ratios[-1]:.3f} times")
    click.echo(f"median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f} (aim: at least 0.98)")


@click.command(help=__doc__)
@click.option("--model", help="As for `cede serve`; the embedded model by default.")
@click.option("--streams", default=4, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--tokens", default=256, show_default=True, help="Of each stream.")
def main(model: str | None, streams: int, rounds: int, tokens: int) -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder:
        trio.run(measure, model, streams, rounds, tokens, Path(folder))


if __name__ == "__main__":
    main()
