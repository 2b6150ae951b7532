"""The slot table's record of one slot, with what concerns it alone."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from actors.core.slot_views import Candidate, Resident, SlotStatus
from runtime.kv.blocks import BLOCK_TOKENS
from runtime.kv.pages import NO_PAGES, PageTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from actors.core.life import State
    from actors.core.places.state_pool import StatePool
    from actors.core.slot_views import GenerationKey, Provenance, Session
    from runtime.kv.blocks import BlockKey
    from runtime.kv.rings import Rings
    from runtime.kv.token_chain import TokenChain


@dataclass(slots=True, eq=False)
class SlotRecord:
    """One place for a running sequence, as the slot table changes it; see `SlotView`."""

    id: int
    tokens: TokenChain
    rings: Rings | None
    pool: StatePool | None = None  # of its states; None for a model without
    owner: GenerationKey | None = None
    reserved: int = 0
    expected: int = 0  # of these, positions that its holder is to share with others who run
    session: Session | None = None  # of whoever was last granted it
    last_used: int = 0  # the table's grant count at the last release
    held_until: float = 0.0
    before: Resident | None = None
    private: bool = False  # whoever was last granted it wanted no reuse
    trial: list[BlockKey] = field(default_factory=list)
    stands_on: dict[BlockKey, int] = field(default_factory=dict)
    suspect: bool = False
    restored_to: int = 0
    computed_from: int = 0
    least: int = 0
    staged: int = 0
    draft_first: int = 0
    draft_length: int = 0
    pages: PageTable = NO_PAGES
    shared: int = 0  # none of the pages behind so many are anybody else's, too
    states: dict[int, int] = field(default_factory=dict)  # buffers, by the lengths at which there is a state
    passing: tuple[int, ...] = ()  # those of these lengths that the last step left on its way
    displaced: dict[int, int] = field(default_factory=dict)  # lengths, by buffers with states of what was here before

    @property
    def capacity(self) -> int:
        """Return how many positions its pages have."""
        return self.pages.capacity

    @property
    def used(self) -> int:
        """Number of these that have something that may not be lost; blocks that wait to be kept are not known here."""
        return max(len(self.tokens), self.staged, self.draft_length)

    @property
    def windows_from(self) -> int:
        """The position from which on the layers with rings have all rows."""
        return 0 if self.rings is None else self.rings.first_kept(self.least)

    def resident(self) -> Resident:
        """Return what it holds now, in a copy that does not change with it."""
        tokens = self.tokens.head(len(self.tokens))
        states = dict(self.states)
        return Resident(
            tokens, frozenset(self.trial), frozenset(self.stands_on), self.windows_from, self.private, states
        )

    def usable(self, length: int) -> int:
        """Return the greatest length up to that one from which a sequence can go on.

        There must be a state; it is 0 where the rings have not what a sequence goes on with from there.
        """
        if self.pool is not None:
            length = max((one for one in self.states if one <= length), default=0)
        return length if length >= self.least else 0

    def usable_for(self, prompt: TokenChain, limit: int) -> int:
        """Return how many tokens, at most `limit`, a prompt can go on after, here or in a copy."""
        length = self.usable(min(self.tokens.shared_with(prompt), limit))
        while (point := self.branch_point(length)) < length:  # a state may be inside a block that a tier gave
            length = self.usable(point)
        return length

    def branch_point(self, length: int) -> int:
        """Return the most tokens, up to that length, after which another sequence may go on otherwise.

        Of a block that a tier gave it takes all or nothing.  After a part of it, it would make a block of another name;
        and if the first were found wrong, no name would tell that the second stands on it.
        """
        start = length - length % BLOCK_TOKENS
        return start if start < self.restored_to else length

    def stand_on(self, source: Provenance) -> None:
        """Record which blocks KV came from that was moved in."""
        self.trial += source.trial
        self.stands_on |= source.stands_on

    def candidate(self, usable: int, grants: int, now: float) -> Candidate:
        """Return the slot as the choice of a grant sees it."""
        idle, is_held = grants - self.last_used, self.held_until > now
        return Candidate(len(self.tokens), usable, idle, is_held, self.session, self.last_used)

    def exchange(self, other: SlotRecord) -> None:
        """Take what another has of KV and of its past, and give it one's own; each stays whose it is."""
        for name in _CONTENTS:
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, theirs)
            setattr(other, name, mine)

    def trim_draft(self, length: int) -> None:
        """Keep no more than so many positions of the drafter's KV."""
        self.draft_length = min(self.draft_length, length)
        if self.draft_length <= self.draft_first:
            self.draft_first = self.draft_length = 0

    def put_states(self, states: Mapping[int, int], *, passing: bool) -> None:
        """Name the buffers in which there is a state now, by the length of the sequence; not those of before.

        What is `passing` stays until the next step, since an output may have ended before the last of it; and longer
        behind a block, where it has a name outside of the slot, too.
        """
        assert self.pool is not None, "a model without states"
        new = {length: buffer for length, buffer in states.items() if length not in self.states}
        for buffer in new.values():
            self.pool.name(buffer)
        self.states |= new
        self.drop_states([length for length in self.passing if length not in states])
        self.passing = tuple(one for one in (*self.passing, *new) if one % BLOCK_TOKENS) if passing else ()

    def pass_on(self) -> None:
        """Keep of what the last step left on its way only the state that the sequence goes on from."""
        self.drop_states([length for length in self.passing if length != len(self.tokens)])

    def drop_states(self, lengths: Iterable[int]) -> None:
        """Have no state of these lengths any more."""
        for length in lengths:
            assert self.pool is not None, "a model without states"
            self.pool.drop(self.states.pop(length))
        self.passing = tuple(length for length in self.passing if length in self.states)

    def displace_states(self, length: int) -> None:
        """Have those of more tokens as what was here before; they stay until they were copied out, or make way."""
        for one in [one for one in self.states if one > length]:
            self.displaced[self.states.pop(one)] = one

    def forget_displaced(self, buffers: Iterable[int]) -> None:
        """Have these states no more of what was here before."""
        for buffer in buffers:
            assert self.pool is not None, "a model without states"
            del self.displaced[buffer]
            self.pool.drop(buffer)

    def has_state(self, length: int, buffer: int) -> bool:
        """Return whether the state of so many tokens is still in that buffer, of what is here or was before."""
        return self.states.get(length) == buffer or buffer in self.displaced

    def snapshots(self) -> Iterator[tuple[int, int]]:
        """Yield the states that no running sequence goes on from, by length and buffer."""
        yield from ((length, buffer) for buffer, length in self.displaced.items())
        for length, buffer in self.states.items():
            if self.owner is None or length != len(self.tokens):
                yield length, buffer

    def evict(self, length: int, buffer: int) -> None:
        """Drop one of these."""
        if buffer in self.displaced:
            self.forget_displaced([buffer])
        else:
            self.drop_states([length])

    def status(self, state_of: Callable[[GenerationKey], State]) -> SlotStatus:
        """Return a frozen snapshot."""
        return SlotStatus(
            id=self.id,
            state="idle" if self.owner is None else state_of(self.owner),
            request_id=self.owner[0] if self.owner else None,
            tokens=len(self.tokens) if self.owner else 0,
            resident_tokens=len(self.tokens),
            draft_tokens=self.draft_length,
            capacity=self.capacity,
        )

    def check_integrity(self, context: int) -> None:
        """Raise AssertionError if the record contradicts itself."""
        self.tokens.check_integrity()
        assert len(self.tokens) <= context, self
        assert self.computed_from <= len(self.tokens), self
        assert self.least <= len(self.tokens), self
        assert self.draft_first <= self.draft_length <= context, self
        if self.owner is None:
            assert not self.staged, self
            assert self.draft_length <= len(self.tokens), self
            assert not self.suspect, self


_ITS_OWN = ("id", "rings", "pool", "owner", "reserved", "expected")
_CONTENTS = [one.name for one in fields(SlotRecord) if one.name not in _ITS_OWN]
