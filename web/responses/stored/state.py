"""What of the Responses API outlives a request: the stored responses, and those that run in the background."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from web.responses.stored.archive import Archive
from web.responses.stored.background import BackgroundBounds, BackgroundResponses, open_background
from web.responses.stored.conversations import StoredConversations
from web.storage.objects import Bounds
from web.storage.store import ObjectStore, open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actors.engine import Engine
    from web.options import StateOptions

KEEP_ALIVE = 10.0
"""Seconds of silence after which a stream says that it is alive."""


@dataclass(frozen=True, slots=True)
class State:
    """What is stored, and what runs without a client.

    Attributes:
        store: of objects of every kind.
        archive: the responses in it.
        background: the responses that run.
        conversations: that responses begin from and add to.
    """

    store: ObjectStore
    archive: Archive
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
        bounds = BackgroundBounds(options.max_background, options.background_timeout, options.background_events)
        async with open_background(engine, archive, bounds, keep_alive) as background:
            yield State(store, archive, background, StoredConversations(store))
