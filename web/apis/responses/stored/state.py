"""State that outlives a client: the stored answers, and the requests that run without one."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from web.apis.responses.stored.archive import Archive
from web.apis.responses.stored.conversations import StoredConversations
from web.apis.responses.stored.making import BackgroundResponses
from web.storage.detached.runs import RunBounds, Runs, open_runs
from web.storage.objects import Bounds
from web.storage.store import ObjectStore, open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actors.engine import Engine
    from web.process.options import StateOptions

KEEP_ALIVE = 10.0
"""Seconds of silence after which a stream says that it is alive."""


@dataclass(frozen=True, slots=True)
class State:
    """State of what is stored, and of what runs without a client.

    Attributes:
        store: of objects of every kind.
        archive: the responses in it.
        runs: the requests of all APIs that may outlive their clients.
        background: begins responses without a client.
        conversations: that responses begin from and add to.
    """

    store: ObjectStore
    archive: Archive
    runs: Runs
    background: BackgroundResponses
    conversations: StoredConversations


@asynccontextmanager
async def open_state(engine: Engine, options: StateOptions, keep_alive: float = KEEP_ALIVE) -> AsyncIterator[State]:
    """The state beside an engine, while the scope lasts.

    Raises:
        StateFolderError: the folder cannot be used.
    """
    async with open_store(options.state_dir, Bounds(options.state_size, options.state_age)) as store:
        archive = Archive(store)
        await archive.close_interrupted()
        bounds = RunBounds(
            running=options.max_background,
            timeout=options.background_timeout,
            kept_bytes=options.background_events,
            tokens=options.background_tokens,
            grace=options.max_grace,
            keep=options.max_keep,
        )
        async with open_runs(engine, bounds) as runs:
            background = BackgroundResponses(runs, archive, keep_alive)
            yield State(store, archive, runs, background, StoredConversations(store))
