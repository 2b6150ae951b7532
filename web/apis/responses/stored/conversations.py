"""Stored conversations: items that responses begin from and add to.

One at a time: while a response is made from a conversation, nobody else adds items to it or takes some away, for the
answer would then follow something else than it was made from.  Deleting it is always possible; the response goes on and
adds nothing.
"""

from __future__ import annotations

import logging
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.apis.responses.input.items import MAX_ITEMS
from web.storage.objects import Kind, ObjectTooLarge, StoredObject, check_ids
from web.storage.store import StoreFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from web.storage.objects import Item
    from web.storage.store import ObjectStore

logger = logging.getLogger("cede.web")

Key = tuple[str | None, str]


class ConversationLocked(RequestError):
    """A response is being made from the conversation: OpenAI's error, by its status and code."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"A response is being made from the conversation '{conversation_id[:80]}'; try again when it has ended.",
            param="conversation",
            code="conversation_locked",
        )


class ConversationLease:
    """A response's use of a conversation, which nobody else changes meanwhile.  It may be entered by several scopes.

    The last of them ends it, unless it has ended before, when its items were added.

    Args:
        conversations: see there.
        key: of the conversation: its owner and its id.
    """

    def __init__(self, conversations: StoredConversations, key: Key) -> None:
        self._conversations = conversations
        self._key = key
        self._scopes = 0

    def __enter__(self) -> Self:
        """Hold the conversation."""
        self._scopes += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Let the conversation go, if this is the last scope."""
        self._scopes -= 1
        if self._scopes == 0:
            self._conversations.end(self._key, self)

    async def append(self, items: Sequence[Item]) -> bool:
        """Add what was said, all of it or nothing, and end the turn; tell whether it could be added."""
        owner, conversation_id = self._key
        try:
            await self._conversations.store.append(Kind.CONVERSATION, conversation_id, owner, items, MAX_ITEMS)
        except (RequestError, StoreFailed) as error:  # it was deleted meanwhile, or the disk is full
            logger.warning("nothing was added to a conversation: %s", error)
            return False
        finally:
            self._conversations.end(self._key, self)
        return True


class StoredConversations:
    """The stored conversations, as far as there is more to them than to other stored objects.

    Attributes:
        store: of objects, where they are.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self._turns: dict[Key, ConversationLease] = {}

    async def create(self, items: Sequence[Item], metadata: Mapping[str, str], owner: str | None) -> StoredObject:
        """Store a new conversation.

        Raises:
            DuplicateItem: two of the items have the same id.
            ObjectTooLarge: it would take more than all that may be stored.
            StoreFailed: the store cannot be written.
        """
        check_ids(item.id for item in items)
        conversation = StoredObject(
            Kind.CONVERSATION,
            f"conv_{uuid.uuid4().hex}",
            b"",
            created=int(time.time()),
            owner=owner,
            metadata=metadata,
        )
        if not await self.store.put(conversation, items):
            raise ObjectTooLarge
        return conversation

    @contextmanager
    def turn(self, conversation_id: str, owner: str | None) -> Iterator[ConversationLease]:
        """A response's use of a conversation.

        Raises:
            ConversationLocked: there is another.
        """
        key = (owner, conversation_id)
        if key in self._turns:
            raise ConversationLocked(conversation_id)
        turn = self._turns[key] = ConversationLease(self, key)
        with turn:
            yield turn

    def end(self, key: Key, turn: ConversationLease) -> None:
        """Let others change a conversation again; for the turn.  Without effect if the turn has ended."""
        if self._turns.get(key) is turn:
            del self._turns[key]

    async def add(self, conversation_id: str, owner: str | None, items: Sequence[Item]) -> None:
        """Add items that no response has made, as `ObjectStore.append` does.

        Raises:
            ConversationLocked: a response is being made from the conversation.
        """
        with self.turn(conversation_id, owner):
            await self.store.append(Kind.CONVERSATION, conversation_id, owner, items, MAX_ITEMS)

    async def remove(self, conversation_id: str, owner: str | None, item_id: str) -> StoredObject:
        """Take an item away, and return the conversation, as `ObjectStore.remove` does.

        Raises:
            ConversationLocked: a response is being made from the conversation.
        """
        with self.turn(conversation_id, owner):
            return await self.store.remove(Kind.CONVERSATION, conversation_id, owner, item_id)
