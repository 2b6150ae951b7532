"""Cost of a server's instruments: its throughput while all of them are in use, as a ratio within one run.

    python -m bench.engine.instruments [--model FOLDER] [--streams 4] [--rounds 12] [--tokens 1024]

Two servers take turns, now one first and now the other.  One is left alone.  The other records all that its engine does
(`--record`), has its metrics fetched each second, as Prometheus does, and its events followed, as the page does.  A
round takes some seconds: in a short one, the first scrape and the first frame would weigh more than those that follow.
"""

from __future__ import annotations

import statistics
import tempfile
from contextlib import asynccontextmanager, nullcontext
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
        figures = {alone: 0.0, observed: 0.0}
        async with httpx.AsyncClient(timeout=600) as client:
            for number in range(-1, rounds):  # the first one only warms up
                for url in (alone, observed) if number % 2 else (observed, alone):
                    client.base_url = httpx.URL(url)
                    async with watched(url) if url == observed else nullcontext():
                        figures[url] = await throughput(client, streams, tokens)
                bare, used = figures.values()
                if number >= 0:
                    ratios.append(used / bare)
                    click.echo(f"round {number}: {bare:.1f} tokens/s alone, {used:.1f} watched, {ratios[-1]:.3f} times")
    click.echo(
        f"median {statistics.median(ratios):.3f}, mean {statistics.fmean(ratios):.3f}, {min(ratios):.3f} to "
        f"{max(ratios):.3f} (aim: at least 0.98)"
    )


@click.command(help=__doc__)
@click.option("--model", help="As for `cede serve`; the embedded model by default.")
@click.option("--streams", default=4, show_default=True)
@click.option("--rounds", default=12, show_default=True)
@click.option("--tokens", default=1024, show_default=True, help="Of each stream.")
def main(model: str | None, streams: int, rounds: int, tokens: int) -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder:
        trio.run(measure, model, streams, rounds, tokens, Path(folder))


if __name__ == "__main__":
    main()
