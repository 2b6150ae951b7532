"""Chats that are stored, for the tests in this folder."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.fakes.engine import FakeEngine, as_engine, say
from tests.unit.web.apps import CHAT, HI
from web.apis.responses.stored.state import State, open_state
from web.process.access.api_keys import ApiKey, KeyRing, digest_of
from web.process.options import StateOptions
from web.serving.app import create_app
from web.storage.objects import Kind, Listing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from quart.typing import TestClientProtocol

Json = dict[str, Any]

KEPT: Json = HI | {"store": True}
KEYS = {name: ApiKey(digest_of(name.encode()), name) for name in ("alice", "bob")}


@asynccontextmanager
async def serving(
    engine: FakeEngine | None = None,
    *,
    keyed: bool = False,
    **options: Any,  # noqa: ANN401
) -> AsyncIterator[tuple[TestClientProtocol, State]]:
    """A client of an application that stores chats."""
    served = as_engine(engine or FakeEngine(say("Hel", "lo")))
    async with open_state(served, StateOptions(**options)) as state:
        yield create_app(served, state=state, keys=KeyRing(KEYS.values() if keyed else ())).test_client(), state


async def answer(client: TestClientProtocol, **fields: Any) -> Json:  # noqa: ANN401
    """The stored answer to a chat with these fields, beside one message unless given."""
    response = await client.post(CHAT, json=KEPT | fields)
    assert response.status_code == 200, await response.get_data()
    made: Json = await response.get_json()
    return made


async def get(client: TestClientProtocol, path: str, **headers: str) -> Json:
    """Return what is found at a path below that of the chats."""
    response = await client.get(f"{CHAT}{path}", headers=headers)
    assert response.status_code == 200, await response.get_data()
    found: Json = await response.get_json()
    return found


async def stored_ids(state: State) -> list[str]:
    """The ids of all that is stored."""
    found = await state.store.list(Listing(Kind.CHAT_COMPLETION, None, 100))
    return [stored.id for stored in found.objects]
