"""Entries of a worker in discovery by files, written again where they have run out.

Each entry is a file of Dynamo's, which its owner touches every few seconds.  Whoever finds one that was not touched for
ten seconds removes it, and its owner never writes it again.  So where a machine slept, or stood still for a moment, the
first process to wake up removes what the others have, all or some of it.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any, Protocol

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable
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
