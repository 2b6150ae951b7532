"""Checks of a worker against discovery: what it does when a cluster no longer knows it, or what it has.

`keep_entries`: each entry in discovery by files is a file of Dynamo's, which its owner touches every few seconds.
Whoever finds one that was not touched for ten seconds removes it, and its owner never writes it again.  So where a
machine slept, or stood still for a moment, the first process to wake up removes what the others have, all or some of
it.  Here it is written again.

`watch_presence`: a worker that discovery has forgotten all the same stops, so that whoever started it starts it again.
So it is after a worker was frozen, and after discovery was away: what a worker had written there has run out, and
Dynamo, which goes on saying that it lives, does not write it again.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any, Protocol

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection
    from pathlib import Path

logger = logging.getLogger("cede.web")

LOOK_EVERY = 1.0  # seconds
UNFINISHED = ".tmp_"  # so begins the name of a file that is still being written


class Entries:
    """The entries of one worker.

    Args:
        folder: of discovery.
        worker_id: as discovery has it.
    """

    def __init__(self, folder: Path, worker_id: int) -> None:
        self._folder = folder
        self._ids = {worker_id}
        self._contents: dict[Path, bytes] = {}
        self._named: dict[Path, frozenset[int]] = {}

    def __len__(self) -> int:
        """Return how many it is known to have."""
        return len(self._ours())

    def renew(self) -> list[Path]:
        """Remember those that are there, and write those again that were and are not.

        Returns:
            what was written again.

        Raises:
            OSError: the folder is away, or cannot be written.
        """
        there = set(self._paths())
        for path in there - self._contents.keys():
            self._remember(path)
        ours = self._ours()
        for path in self._contents.keys() - there - ours:
            del self._contents[path], self._named[path]
        gone = sorted(ours - there)
        for path in gone:
            self._write(path)
        return gone

    def _paths(self) -> list[Path]:
        if not self._folder.is_dir():
            raise FileNotFoundError(f"no folder {self._folder}")
        return [path for path in self._folder.rglob("*") if path.is_file() and not path.name.startswith(UNFINISHED)]

    def _remember(self, path: Path) -> None:
        try:
            content = path.read_bytes()
            named = frozenset(names(json.loads(content)))
        except (FileNotFoundError, ValueError):
            return  # somebody's who has just left, or not an entry
        self._contents[path], self._named[path] = content, named

    def _ours(self) -> set[Path]:
        """Return those that name the worker or, from the next look on, what it publishes under an id of its own."""
        ours = {path for path, named in self._named.items() if named & self._ids}
        self._ids.update(*(self._named[path] for path in ours))
        return ours

    def _write(self, path: Path) -> None:
        unfinished = path.with_name(f"{UNFINISHED}{os.getpid()}")
        unfinished.write_bytes(self._contents[path])
        os.replace(unfinished, path)


def names(entry: dict[str, Any]) -> set[int]:
    """Return the ids by which an entry says whose it is: the worker's, or that of what it publishes."""
    worker = entry.get("metadata", {}).get("worker", {}).get("worker_id")
    return {found for found in (entry.get("instance_id"), entry.get("publisher_id"), worker) if found is not None}


class Member(Protocol):
    """Part of a `Membership` that writes its entries again."""

    def renew(self, entries: Entries) -> Awaitable[list[Path]]:
        """Write them again, unless they are not to be there."""


async def keep_entries(member: Member, entries: Entries) -> None:
    """Renew a worker's entries until cancelled."""
    is_away, known = False, 0
    while True:
        try:
            renewed = await member.renew(entries)
        except OSError as error:
            if not is_away:
                logger.warning("discovery cannot be looked at: %s", error)
            is_away, renewed = True, []
        else:
            is_away = False
        if renewed:
            logger.warning("entries of this worker that discovery had forgotten, and has again: %d", len(renewed))
        if len(entries) != known:
            known = len(entries)
            logger.info("entries of this worker that discovery has: %d", known)
        await trio.sleep(LOOK_EVERY)


ASK_EVERY = 5.0  # seconds; Dynamo tells nobody
LOOKS = 2  # in a row, or a worker that has just come back would be taken for one that is gone


class Wanted(Protocol):
    """Part of a `Membership` that says whether its worker ought to be found."""

    @property
    def is_in(self) -> bool:
        """Return whether it ought to."""


class Client(Protocol):
    """Dynamo's, as far as it is used here: it follows discovery, and keeps what it knew while that is away."""

    def instance_ids(self) -> Collection[int]:
        """The workers that are to be found."""


async def watch_presence(worker_id: int, membership: Wanted, client: Client, stop: Callable[[], None]) -> None:
    """Call `stop` once the worker is not to be found although it ought to be; then return.

    Args:
        worker_id: as discovery has it.
        membership: whether it ought to be found.
        client: whether it is.
        stop: lets the worker end in good order.
    """
    missed = 0
    while missed < LOOKS:
        await trio.sleep(ASK_EVERY)
        missed = missed + 1 if membership.is_in and worker_id not in client.instance_ids() else 0
    logger.error("discovery has forgotten this worker; it stops, and wants to be started again")
    stop()
