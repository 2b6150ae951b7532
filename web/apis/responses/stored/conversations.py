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
from typing import TYPE_CHECKING, TypeVar

from runtime.errors import NotFound, RequestError
from web.apis.responses.input.items import MAX_ITEMS
from web.storage.objects import Kind, ObjectTooLarge, StoredObject, check_ids
from web.storage.store import StoreFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from web.bodies.query import PageAsked
    from web.storage.objects import Item, ItemPage
    from web.storage.store import ObjectStore

logger = logging.getLogger("cede.web")

T = TypeVar("T")
Key = tuple[str | None, str]


class ConversationNotFound(NotFound):
    """No conversation of that id is stored."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"Conversation with id '{conversation_id[:80]}' not found.",
            param="conversation",
            code="conversation_not_found",
        )


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
            await self._conversations.append(conversation_id, owner, items)
        except (RequestError, StoreFailed) as error:  # it was deleted meanwhile, or the disk is full
            logger.warning("nothing was added to a conversation: %s", error)
            return False
        finally:
            self._conversations.end(self._key, self)
        return True


class StoredConversations:
    """The stored conversations.

    Args:
        store: of objects.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._turns: dict[Key, ConversationLease] = {}

    # --- conversations ----------------------------------------------------------------------------------------------

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
        if not await self._store.put(conversation, items):
            raise ObjectTooLarge
        return conversation

    async def load(self, conversation_id: str, owner: str | None) -> StoredObject:
        """Return a conversation.

        Raises:
            ConversationNotFound: there is none of that id.
            StoreFailed: the store cannot be read.
        """
        return _found(await self._store.get(Kind.CONVERSATION, conversation_id, owner), conversation_id)

    async def update(self, conversation_id: str, owner: str | None, metadata: Mapping[str, str]) -> StoredObject:
        """Put other metadata in place of a conversation's, and return it.

        Raises:
            ConversationNotFound: there is none of that id.
        """
        return _found(await self._store.annotate(Kind.CONVERSATION, conversation_id, owner, metadata), conversation_id)

    async def delete(self, conversation_id: str, owner: str | None) -> None:
        """Delete a conversation, with its items, also while a response is made from it.

        Raises:
            ConversationNotFound: there is none of that id.
        """
        if not await self._store.delete(Kind.CONVERSATION, conversation_id, owner):
            raise ConversationNotFound(conversation_id)

    # --- items ------------------------------------------------------------------------------------------------------

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

    async def append(self, conversation_id: str, owner: str | None, items: Sequence[Item]) -> None:
        """Add items at the end, all or none.

        Raises:
            ConversationNotFound: there is no conversation of that id.
            RequestError: there would be too many, or two of one id.
            ObjectTooLarge: the conversation would take more than all that may be stored.
        """
        if not await self._store.append(Kind.CONVERSATION, conversation_id, owner, items, MAX_ITEMS):
            raise ConversationNotFound(conversation_id)

    async def add(self, conversation_id: str, owner: str | None, items: Sequence[Item]) -> None:
        """Add items that no response has made, as `append` does.

        Raises:
            ConversationLocked: a response is being made from the conversation.
        """
        with self.turn(conversation_id, owner):
            await self.append(conversation_id, owner, items)

    async def remove(self, conversation_id: str, owner: str | None, item_id: str) -> StoredObject:
        """Take an item away, and return the conversation.

        Raises:
            ConversationNotFound: there is no conversation of that id.
            ConversationLocked: a response is being made from it.
            ItemNotFound: it has no such item.
        """
        with self.turn(conversation_id, owner):
            found = await self._store.remove(Kind.CONVERSATION, conversation_id, owner, item_id)
            return _found(found, conversation_id)

    async def item(self, conversation_id: str, owner: str | None, item_id: str) -> Item:
        """Return one of a conversation's items.

        Raises:
            ConversationNotFound: there is no conversation of that id.
            ItemNotFound: it has no such item.
        """
        return _found(await self._store.item(Kind.CONVERSATION, conversation_id, owner, item_id), conversation_id)

    async def page(self, conversation_id: str, owner: str | None, asked: PageAsked) -> ItemPage:
        """Return a page of a conversation's items.

        Raises:
            ConversationNotFound: there is no conversation of that id.
            NothingAfter: it has no item `asked.after`.
        """
        return _found(await self._store.page(Kind.CONVERSATION, conversation_id, owner, asked), conversation_id)

    async def before(self, conversation_id: str, owner: str | None, most_bytes: int) -> ItemPage:
        """Return what a response goes on from: the newest of a conversation's items, the oldest first.

        Args:
            conversation_id: of the conversation.
            owner: whose it is.
            most_bytes: from which on no more of them are read.

        Raises:
            ConversationNotFound: there is no conversation of that id.
        """
        before = await self._store.before(Kind.CONVERSATION, conversation_id, owner, MAX_ITEMS, most_bytes)
        return _found(before, conversation_id)


def _found(found: T | None, conversation_id: str) -> T:
    if found is None:
        raise ConversationNotFound(conversation_id)
    return found
