"""A `cede cluster` for the time of a measurement."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

WORKER = re.compile(r"^worker [0-9a-f]+ pid \d+ at (\S+)$", re.MULTILINE)
DOOR = re.compile(r"^cede cluster at (\S+)$", re.MULTILINE)


class DidNotStart(Exception):
    """The cluster has ended before it accepted requests."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """URLs of a cluster that accepts requests: of its front door and of its workers."""

    door: str
    workers: Sequence[str]


@asynccontextmanager
async def open_cluster(workers: int, *arguments: str) -> AsyncIterator[Addresses]:
    """Start `cede cluster` on free ports, yield its addresses, and stop it at the end.

    What it logs is shown only if it does not start: Dynamo writes a line for each request.

    Args:
        workers: how many.
        arguments: of the command, beside their number and the ports.

    Raises:
        DidNotStart: it has ended instead.
    """
    command = [sys.executable, "-m", "web", "cluster", "--workers", str(workers), "--port", "0"]
    with tempfile.TemporaryFile("w+b") as log:
        process = await trio.lowlevel.open_process(
            [*command, "--log-level", "warning", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            env=dict(os.environ),
        )
        try:
            yield await _addresses(process, log)
        finally:
            process.terminate()
            with trio.CancelScope(shield=True):
                await process.wait()


async def _addresses(process: trio.Process, log: IO[bytes]) -> Addresses:
    assert process.stdout is not None
    said = ""
    while (door := DOOR.search(said)) is None:
        more = await process.stdout.receive_some()
        if not more:
            log.seek(0)
            raise DidNotStart(f"`cede cluster` has ended: {log.read().decode()[-4000:]}")
        said += more.decode()
    return Addresses(door[1], WORKER.findall(said))
