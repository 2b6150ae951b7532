"""Batching and fairness of a running server, as ratios within one run.

    python -m bench.engine.serving [--model FOLDER] [--rounds 5]

starts `cede serve` on a free port and reports

- total throughput of four concurrent streams against one stream, round by round;
- the longest gap that three decoding streams saw beside one long prefill, against the target step time (20 ms, or twice
  a step of their own where that is longer).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import asynccontextmanager
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

import httpx
import trio

from actors.config import EngineConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

STEP_SECONDS = EngineConfig(slots=1).step_seconds
"""Seconds that a step should take beside neighbours."""
CODE = "def read_lines(path):\n    with open(path) as file:\n        return [line.rstrip() for line in file]\n\n"


async def stream(
    client: httpx.AsyncClient, prompt: str, tokens: int, times: list[float], settled: trio.Event | None = None
) -> None:
    """Append to `times` the time of each token of a greedy completion; set `settled` after a quarter of them."""
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    async with client.stream("POST", "/v1/completions", json=body | {"return_token_ids": True}) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line[6:])["choices"]
                times += [trio.current_time()] * sum(len(choice.get("token_ids") or ()) for choice in choices)
                if settled is not None and len(times) >= tokens // 4:
                    settled.set()


async def throughput(client: httpx.AsyncClient, streams: int, tokens: int) -> float:
    """Return the tokens per second of `streams` concurrent completions together."""
    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        for i in range(streams):
            nursery.start_soon(stream, client, f"# variant {i}\nimport os\n\n", tokens, [])
    return streams * tokens / (trio.current_time() - started)


async def gaps_beside_prefill(client: httpx.AsyncClient, long_prompt: str, tokens: int) -> tuple[float, float]:
    """Return the median gap of three decoding streams alone, and the longest beside a long prefill, in seconds."""
    arrivals: list[list[float]] = [[], [], []]
    settled = [trio.Event() for _ in arrivals]
    async with trio.open_nursery() as nursery:
        for i, times in enumerate(arrivals):
            nursery.start_soon(stream, client, f"# stream {i}\nimport os\n\n", tokens, times, settled[i])
        for event in settled:
            await event.wait()
        begun, first_token = trio.current_time(), list[float]()
        await stream(client, long_prompt, 1, first_token)

    alone: list[float] = []
    beside: list[float] = []
    for times in arrivals:
        for before, after in pairwise(times):
            overlaps = before < first_token[0] and after > begun
            (beside if overlaps else alone).append(after - before)
    return statistics.median(gap for gap in alone if gap > 0), max(beside)


async def measure(url: str, rounds: int, tokens: int) -> None:
    """Run all rounds and print the table."""
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:
        context = (await client.get("/v1/models")).json()["data"][0]["max_model_len"]
        await throughput(client, 4, tokens // 4)  # warm-up
        ratios = []
        for i in range(rounds):
            one, four = await throughput(client, 1, tokens), await throughput(client, 4, tokens)
            ratios.append(four / one)
            print(f"round {i}: one stream {one:.1f} tokens/s, four {four:.1f}, ratio {ratios[-1]:.2f}")
        print(f"four streams over one: median {statistics.median(ratios):.2f} (aim: at least 2)\n")
        stops = []
        for i in range(rounds):
            prompt = f"# attempt {i}\n" + CODE * (context // 60)
            alone, longest = await gaps_beside_prefill(client, prompt, tokens)
            target = max(STEP_SECONDS, 2 * alone)
            stops.append(longest / target)
            print(
                f"round {i}: gap alone {alone * 1e3:.1f} ms, longest beside a long prefill {longest * 1e3:.1f} ms, "
                f"{stops[-1]:.2f} target step times of {target * 1e3:.0f} ms"
            )
        print(f"longest stop in target step times: median {statistics.median(stops):.2f} (aim: about 2)")


@asynccontextmanager
async def open_server(*arguments: str, environment: Mapping[str, str] = MappingProxyType({})) -> AsyncIterator[str]:
    """Start `cede serve` on a free port, yield its URL, and stop it at the end.

    Args:
        arguments: of the command line.
        environment: what its environment says beside this one's.
    """
    command = [sys.executable, "-m", "web", "serve", "--port", "0", "--log-level", "warning", *arguments]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, env={**os.environ, **environment})
    try:
        assert process.stdout is not None
        announced = (await process.stdout.receive_some()).decode()
        yield announced.split()[-1]
    finally:
        process.terminate()
        with trio.CancelScope(shield=True):
            await process.wait()


async def main() -> None:
    """Parse the arguments, start the server, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder of the model; the embedded one by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=256, help="per stream")
    parser.add_argument("--url", help="measure a server that runs already")
    given = parser.parse_args()
    if given.url:
        await measure(given.url, given.rounds, given.tokens)
        return
    async with open_server(*(["--model", given.model] if given.model else [])) as url:
        await measure(url, given.rounds, given.tokens)


if __name__ == "__main__":
    trio.run(main)
