"""Memory that the variety of prompts' lengths takes of a server, and what bounding that costs in speed.

    python -m bench.engine.memory.lengths memory [--prompts 3000] [--longest 4000] -- [flags of `cede serve`]
    python -m bench.engine.memory.lengths speed [--entries 1024] [--rounds 8] -- [flags of `cede serve`]

The libraries below torch keep what they made for each shape of a product, in two caches of so many entries
(`web.process.torch_settings`).  `memory` asks a server, without KV outside its slots, for a token behind each of many
random prompts of random lengths, and says its resident memory as it goes; the variables LRU_CACHE_CAPACITY and
ONEDNN_PRIMITIVE_CACHE_CAPACITY try other bounds.  `speed` lets two servers take turns, one as it is and one with
`--entries`: such prompts, and then four streams that decode, by the processor time that they take: what else runs
matters less.
"""

from __future__ import annotations

import random
import statistics
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click
import httpx
import psutil
import trio

from bench.engine.serving import open_server, throughput
from web.process.torch_settings import CACHES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

MIB = 2**20
VOCABULARY = range(300, 3000)  # plain tokens


class Prompts:
    """Prompts that are yet to be asked, each drawn when its turn comes: the same for the same seed.

    Args:
        number: of all of them.
        longest: tokens of one, at most.
        seed: of the lengths and tokens.
    """

    def __init__(self, number: int, longest: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._number = number
        self._longest = longest
        self.asked = 0
        self.tokens = 0

    def __iter__(self) -> Prompts:
        """Return the prompts."""
        return self

    def __next__(self) -> list[int]:
        """Return the next one."""
        if self.asked == self._number:
            raise StopIteration
        self.asked += 1
        length = self._random.randint(1, self._longest)
        self.tokens += length
        return self._random.choices(VOCABULARY, k=length)


async def ask(client: httpx.AsyncClient, prompts: Prompts, then: Callable[[int], object] = bool) -> None:
    """Ask one prompt after the other, and then tell of each its number, from 1 on."""
    for prompt in prompts:
        number = prompts.asked
        body = {"prompt": prompt, "max_tokens": 1, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        (await client.post("/v1/completions", json=body)).raise_for_status()
        then(number)


async def measure_memory(prompts: Prompts, every: int, flags: tuple[str, ...]) -> None:
    """Start a server, ask all prompts, two at a time, and say what it holds after each `every` of them."""
    async with watched_server(*flags) as (url, server), httpx.AsyncClient(base_url=url, timeout=600) as client:

        def say(number: int) -> None:
            if number % every == 0:
                click.echo(f"{number:5} prompts: {server.memory_info().rss / MIB:5.0f} MiB")

        say(0)
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(ask, client, prompts, say)


@asynccontextmanager
async def watched_server(*flags: str, **environment: str) -> AsyncIterator[tuple[str, psutil.Process]]:
    """Start a server without KV outside its slots; yield its URL and its process."""
    before = set(psutil.Process().children())
    async with open_server("--kv-ram", "0", *flags, environment=environment) as url:
        (process,) = set(psutil.Process().children()) - before
        yield url, process


async def rates(url: str, process: psutil.Process, longest: int, seed: int) -> tuple[float, float]:
    """Return the tokens in a second of the server's processor time: of prompts, and of four streams that decode."""
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:
        prompts = Prompts(20, longest, seed)
        begun = process.cpu_times().user
        await ask(client, prompts)
        read = process.cpu_times().user
        await throughput(client, 4, 256)
        return prompts.tokens / (read - begun), 4 * 256 / (process.cpu_times().user - read)


async def measure_speed(entries: int, rounds: int, longest: int, flags: tuple[str, ...]) -> None:
    """Let two servers take turns, and print the ratios of their speeds."""
    other = dict.fromkeys(CACHES, str(entries))
    ratios: dict[str, list[float]] = {"prompts": [], "decoding": []}
    async with watched_server(*flags) as here, watched_server(*flags, **other) as there:
        for number in range(-1, rounds):  # the first one only warms up
            turns = (here, there) if number % 2 else (there, here)
            found = {server: await rates(*server, longest, number) for server in turns}
            for name, ours, theirs in zip(ratios, found[here], found[there], strict=True):
                click.echo(f"round {number}: {name}, {ours:.0f} tokens/s, with {entries} {theirs:.0f}")
                if number >= 0:
                    ratios[name].append(ours / theirs)
    for name, of_rounds in ratios.items():
        low, high = min(of_rounds), max(of_rounds)
        click.echo(f"{name}: {statistics.median(of_rounds):.3f} of that with {entries} ({low:.3f} to {high:.3f})")


@click.group(help=__doc__, context_settings={"show_default": True})
def main() -> None:
    """Measure."""


@main.command()
@click.option("--prompts", default=3000, help="How many.")
@click.option("--longest", default=4000, help="Tokens of a prompt, at most.")
@click.option("--every", default=200, help="Prompts between two lines.")
@click.argument("flags", nargs=-1)
def memory(prompts: int, longest: int, every: int, flags: tuple[str, ...]) -> None:
    """Say what a server holds after many prompts."""
    trio.run(measure_memory, Prompts(prompts, longest, 1), every, flags)


@main.command()
@click.option("--entries", default=1024, help="Of each cache of the other server.")
@click.option("--rounds", default=8)
@click.option("--longest", default=4000, help="Tokens of a prompt, at most.")
@click.argument("flags", nargs=-1)
def speed(entries: int, rounds: int, longest: int, flags: tuple[str, ...]) -> None:
    """Compare with a server whose caches have another size."""
    trio.run(measure_speed, entries, rounds, longest, flags)


if __name__ == "__main__":
    main()
