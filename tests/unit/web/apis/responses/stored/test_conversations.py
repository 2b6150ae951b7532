"""Stored conversations under interleaved changes: a turn is there whole or not at all, one at a time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from web.apis.responses.stored.conversations import ConversationLease, ConversationLocked, StoredConversations
from web.storage.objects import Bounds, Item, ItemNotFound, Kind, ObjectNotFound, ObjectTooLarge
from web.storage.store import open_store

OWNER, KIND = "alice", Kind.CONVERSATION
BOUNDS = Bounds(10**6, 1e9)


def item(id: str) -> Item:
    return Item(id, f'{{"id":"{id}"}}'.encode())


async def ids_in(conversations: StoredConversations, id: str) -> list[str]:
    return [each.id for each in (await conversations.store.before(KIND, id, OWNER, 100, 10**6)).items]


def turn_of(name: str) -> list[Item]:
    """Return what a response adds: an input and an output."""
    return [item(f"{name} in"), item(f"{name} out")]


STEPS = st.lists(
    st.sampled_from(["begin a", "begin b", "append a", "append b", "leave a", "leave b", "add", "remove", "delete"]),
    max_size=25,
)


class Model:
    """A conversation, and what should be in it, while two responses and a user of the items take turns."""

    def __init__(self, conversations: StoredConversations, conversation_id: str) -> None:
        self._conversations = conversations
        self._id = conversation_id
        self._turns: dict[str, tuple[Any, ConversationLease]] = {}  # by who has it: its scope, and itself
        self._ended: set[str] = set()
        self._number = 0
        self.items: list[str] | None = []

    def _locked(self) -> bool:
        return bool(self._turns.keys() - self._ended)

    async def play(self, step: str) -> None:
        """Do one step, and see that it does what it should."""
        self._number += 1
        verb, _, who = step.partition(" ")
        match verb:
            case "begin" if who not in self._turns:
                scope = self._conversations.turn(self._id, OWNER)
                if self._locked():
                    with pytest.raises(ConversationLocked):
                        scope.__enter__()
                else:
                    self._turns[who] = (scope, scope.__enter__())
            case "append" if who in self._turns and who not in self._ended:
                added = await self._turns[who][1].append(turn_of(f"{who}{self._number}"))
                assert added is (self.items is not None)
                self._ended.add(who)
                if self.items is not None:
                    self.items += [f"{who}{self._number} in", f"{who}{self._number} out"]
            case "leave" if who in self._turns:
                self._turns.pop(who)[0].__exit__(None, None, None)
                self._ended.discard(who)
            case "add" | "remove" | "delete":
                await self._play_alone(verb)

    async def _play_alone(self, verb: str) -> None:
        match verb:
            case "add":
                await self._change(lambda: self._conversations.add(self._id, OWNER, [item(f"i{self._number}")]))
                if self.items is not None and not self._locked():
                    self.items.append(f"i{self._number}")
            case "remove" if self.items:
                first = self.items[0]
                await self._change(lambda: self._conversations.remove(self._id, OWNER, first))
                if not self._locked():
                    self.items.remove(first)
            case "delete" if self.items is not None:
                await self._conversations.store.delete(KIND, self._id, OWNER)
                self.items = None

    async def _change(self, change: Any) -> None:  # noqa: ANN401
        if self._locked():
            with pytest.raises(ConversationLocked):
                await change()
        elif self.items is None:
            with pytest.raises(ObjectNotFound):
                await change()
        else:
            await change()

    async def stored(self) -> list[str] | None:
        """Return what is there; None where the conversation is not."""
        try:
            return await ids_in(self._conversations, self._id)
        except ObjectNotFound:
            return None

    def leave_all(self) -> None:
        """End what is left of the turns."""
        for scope, _ in self._turns.values():
            scope.__exit__(None, None, None)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_turns_and_changes_interleave(steps: list[str]) -> None:
    """After each step all is there, in order, and nothing else; and at the end nothing is held."""

    async def main() -> None:
        async with open_store(None, BOUNDS) as store:
            conversations = StoredConversations(store)
            made = await conversations.create([], {}, OWNER)
            model = Model(conversations, made.id)
            for step in steps:
                await model.play(step)
                assert await model.stored() == model.items
            model.leave_all()
            with conversations.turn(made.id, OWNER):
                pass

    trio.run(main)


async def test_two_writers_at_the_same_moment_lose_nothing() -> None:
    async with open_store(None, BOUNDS) as store:
        conversations = StoredConversations(store)
        made = await conversations.create([], {}, OWNER)
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(store.append, KIND, made.id, OWNER, turn_of(str(number)), 100)
                nursery.start_soon(store.annotate, KIND, made.id, OWNER, {"n": str(number)})
        stored = await store.get(KIND, made.id, OWNER)
        ids = await ids_in(conversations, made.id)
        assert len(ids) == 20
        assert all(
            first.removesuffix(" in") == then.removesuffix(" out")
            for first, then in zip(ids[::2], ids[1::2], strict=True)
        )
        assert stored.metadata


async def test_a_turn_is_held_until_the_last_of_its_scopes_ends() -> None:
    async with open_store(None, BOUNDS) as store:
        conversations = StoredConversations(store)
        made = await conversations.create([], {}, OWNER)
        with conversations.turn(made.id, OWNER) as turn:
            second = turn.__enter__()
        with pytest.raises(ConversationLocked):
            await conversations.add(made.id, OWNER, [item("a")])
        second.__exit__(None, None, None)
        await conversations.add(made.id, OWNER, [item("a")])


async def test_a_turn_that_was_appended_does_not_end_the_next() -> None:
    async with open_store(None, BOUNDS) as store:
        conversations = StoredConversations(store)
        made = await conversations.create([], {}, OWNER)
        first = conversations.turn(made.id, OWNER)
        assert await first.__enter__().append(turn_of("a"))
        with conversations.turn(made.id, OWNER):
            first.__exit__(None, None, None)
            with pytest.raises(ConversationLocked):
                await conversations.add(made.id, OWNER, [item("b")])


async def test_others_neither_see_nor_hold_it() -> None:
    async with open_store(None, BOUNDS) as store:
        conversations = StoredConversations(store)
        made = await conversations.create([item("a")], {}, OWNER)
        for refused in (
            store.get(KIND, made.id, "bob"),
            store.annotate(KIND, made.id, "bob", {}),
            conversations.add(made.id, "bob", [item("b")]),
            conversations.remove(made.id, "bob", "a"),
            store.delete(KIND, made.id, None),
        ):
            with pytest.raises(ObjectNotFound):
                await refused
        with conversations.turn(made.id, "bob"), conversations.turn(made.id, OWNER):  # what is not there holds nobody
            pass
        with pytest.raises(ItemNotFound):
            await conversations.remove(made.id, OWNER, "b")


async def test_what_finds_no_room_is_refused_and_changes_nothing() -> None:
    async with open_store(None, Bounds(2000, 1e9)) as store:
        conversations = StoredConversations(store)
        made = await conversations.create([item("a")], {}, OWNER)
        with pytest.raises(ObjectTooLarge):
            await conversations.add(made.id, OWNER, [item("x" * 2000)])
        with conversations.turn(made.id, OWNER) as turn:
            assert not await turn.append([item("x" * 2000)])
        with pytest.raises(ObjectTooLarge):
            await conversations.create([item("x" * 2000)], {}, OWNER)
        assert await ids_in(conversations, made.id) == ["a"]
