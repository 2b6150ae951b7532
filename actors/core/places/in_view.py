"""The slots as everybody may look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.slot_views import grant_cost
from runtime.loading.served import Proposer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from actors.core.life import State
    from actors.core.places.record import SlotRecord
    from actors.core.slot_views import GenerationKey, Session, SlotStatus, SlotView
    from runtime.kv.token_chain import TokenChain


class SlotsInView:
    """Read-only view of the slot table: nothing here changes it.

    A *place* is a slot, or a retained place: where nobody ever runs, and what somebody left can stay while there is
    room.

    Args:
        records: of the slots, and then of the retained places.
        slots: how many slots there are.
        context: the most tokens of one.
        proposer: of drafts.  An MTP module goes on from the target's hidden states, so it can read only what the target
            has computed, and its rows that ran ahead of the target do not last.  So does an assistant, which has no KV:
            it reads the newest token and its own drafts, and `draft_first` is where their round began.
    """

    def __init__(self, records: Sequence[SlotRecord], slots: int, context: int, proposer: Proposer) -> None:
        self.context = context
        self._slots = slots
        self._has_own = any(record.rings is not None or record.pool is not None for record in records)
        self._records = records
        self._drafts_from_states = proposer in (Proposer.MTP, Proposer.ASSISTANT)
        self._drafter_has_kv = proposer is not Proposer.ASSISTANT
        self._grants = 0

    def __len__(self) -> int:
        """Return how many slots there are."""
        return self._slots

    def __iter__(self) -> Iterator[SlotView]:
        """Look at each slot, by its number."""
        return iter(self._records[: self._slots])

    def slot(self, slot_id: int) -> SlotView:
        """The place of that id."""
        return self._records[slot_id]

    @property
    def places(self) -> Sequence[SlotView]:
        """The slots, and then the retained places."""
        return self._records

    @property
    def retained_places(self) -> Sequence[SlotView]:
        """The places that are granted to nobody."""
        return self._records[self._slots :]

    @property
    def free(self) -> list[SlotView]:
        """The slots that nobody holds."""
        return [slot for slot in self if slot.owner is None]

    @property
    def held(self) -> list[SlotView]:
        """The others."""
        return [slot for slot in self if slot.owner is not None]

    @property
    def lent(self) -> list[SlotView]:
        """The places of residents: whoever needs the room has it."""
        return [place for place in self._records if place.owner is None]

    @property
    def grants(self) -> int:
        """Number of grants so far."""
        return self._grants

    def longest_live_prefix(
        self, prompt: TokenChain, *, limit: int, besides: SlotView | None
    ) -> tuple[SlotView | None, int]:
        """The other place from which most of `prompt` can be copied, and how much of that; none under suspicion."""
        others = [slot for slot in self._records if slot is not besides and not slot.suspect]
        shared = [(slot, slot.usable_for(prompt, limit)) for slot in others]
        return max(shared, key=lambda source: source[1], default=(None, 0))

    def cheapest(
        self, places: Iterable[SlotView], prompt: TokenChain, *, reuse: bool, now: float, session: Session | None
    ) -> tuple[SlotView, int]:
        """Return which of these, that nobody holds, serves a prompt at the least cost, and how much of it is there.

        At least the prompt's last token is left to compute, because its logits are wanted.
        """
        limit = len(prompt) - 1 if reuse else 0
        shared = self._shareable(prompt, limit)

        def cost(free: tuple[SlotRecord, int]) -> tuple[bool, float, int]:
            place, usable = free
            return grant_cost(place.candidate(usable, self._grants, now), len(prompt), session, len(self), shared)

        records = (self._records[place.id] for place in places)
        return min(((record, record.usable_for(prompt, limit)) for record in records), key=cost)

    def _shareable(self, prompt: TokenChain, limit: int) -> int:
        """Return how many tokens of a prompt a slot can be given without computing; rings and states are its own."""
        if self._has_own:
            return 0
        places = [place for place in self._records if not place.suspect]
        return max((place.usable_for(prompt, limit) for place in places), default=0)

    def draft_start(self, slot: SlotView) -> int:
        """The first position that the drafter has not read and can read."""
        read = slot.draft_length if self._drafter_has_kv else max(slot.draft_length, len(slot.tokens))
        return max(read, slot.computed_from + 1) if self._drafts_from_states else read

    def draft_first(self, slot: SlotView, start: int) -> int:
        """The first position of which the drafter has KV, once it has read on from `start`."""
        return slot.draft_first if start == slot.draft_length and start else start

    def _draft_kept(self, slot: SlotView, start: int) -> int:
        """How many positions the drafter's KV keeps of a round, once a step has committed rows from `start` on."""
        if not self._drafter_has_kv:
            return 0
        return start + 1 if self._drafts_from_states else len(slot.tokens)

    def status(self, state_of: Callable[[GenerationKey], State]) -> Iterator[SlotStatus]:
        """Every slot as a frozen snapshot, made when its turn comes: there may be thousands."""
        for slot in self._records[: self._slots]:
            yield slot.status(state_of)

    def check_integrity(self) -> None:
        """Raise AssertionError if the table contradicts itself."""
        owners = [slot.owner for slot in self._records if slot.owner is not None]
        assert len(owners) == len(set(owners)), f"one generation holds two slots: {owners}"
        for slot in self._records:
            slot.check_integrity(self.context)
        assert all(retained.owner is None for retained in self.retained_places), "a retained place is held"
