"""Views of a slot for others than the slot table, and the cost of granting a free one: pure figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from actors.core.life import State  # noqa: TC001  what is shown of a slot is a schema, too
from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime.kv.blocks import BlockKey
    from runtime.kv.pages import PageTable
    from runtime.kv.token_chain import TokenChain

GenerationKey: TypeAlias = tuple[str, int]
"""A generation's identity: its request's id, and its index there."""

Session: TypeAlias = tuple[str | None, str]
"""A client's session: the name of the API key that asked, if there are keys, and what the client calls it."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of KV that is moved into a slot.

    Attributes:
        trial: the blocks that it came from, over which no step has run.
        stands_on: the names of all blocks that it came from, or may have been computed after, each with its first
            position.
        restored_to: the position up to which it came from a tier, into this slot or another.
        states: that come with it: buffers, by the length of the sequence.
    """

    trial: Sequence[BlockKey] = ()
    stands_on: Mapping[BlockKey, int] = field(default_factory=dict)
    restored_to: int = 0
    states: Mapping[int, int] = field(default_factory=dict)


# Tokens: sharing takes a round trip through the manager, about as long as computing a few rows of a small model.
SHARING_COST = 16

NOT_RESTORED = Provenance()
NO_STATES: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Resident:
    """Contents of a slot, and where they came from.

    Attributes:
        tokens: whose KV it is.
        trial: the blocks among it that were restored, and that no step has run over yet.
        stands_on: the names of all blocks that it came from, or may have been computed after.
        windows_from: the position from which on the layers with rings have all rows.
        private: it was computed for a request that wanted no reuse.
        states: buffers with states of recurrent layers, by the lengths at which there is one.
    """

    tokens: TokenChain
    trial: frozenset[BlockKey] = frozenset()
    stands_on: frozenset[BlockKey] = frozenset()
    windows_from: int = 0
    private: bool = False
    states: Mapping[int, int] = field(default_factory=dict)

    def has_windows(self, block: int) -> bool:
        """Return whether the layers with rings still have all rows of that block, by its number."""
        return block * BLOCK_TOKENS >= self.windows_from


class SlotView(Protocol):
    """A slot as everybody but the table sees it: nothing here can be set."""

    @property
    def id(self) -> int:
        """Number of the slot."""

    @property
    def pages(self) -> PageTable:
        """Pages of the pool of KV in which its sequence lies."""

    @property
    def capacity(self) -> int:
        """Return how many positions these have."""

    @property
    def used(self) -> int:
        """Number of these with something that may not be lost; blocks that wait to be kept are not known here."""

    @property
    def reserved(self) -> int:
        """Return how many the sequence of its holder may come to need."""

    @property
    def expected(self) -> int:
        """Return how many of these its holder is to share with others who run."""

    @property
    def last_used(self) -> int:
        """The table's grant count at the last release."""

    @property
    def tokens(self) -> TokenChain:
        """Tokens whose KV is committed; they stay after the release."""

    @property
    def owner(self) -> GenerationKey | None:
        """The generation that holds it; None while it is free."""

    @property
    def held_until(self) -> float:
        """A cancel left its tokens, and the retry may come until then; on Trio's clock."""

    @property
    def before(self) -> Resident | None:
        """Contents at the last grant, which displaced some of that."""

    @property
    def trial(self) -> Sequence[BlockKey]:
        """Restored blocks that no step has run over yet."""

    @property
    def stands_on(self) -> Mapping[BlockKey, int]:
        """All blocks that its KV came from, or may have been computed after, each with its first position."""

    @property
    def restored_to(self) -> int:
        """The position up to which it came from a tier, into this slot or another."""

    @property
    def suspect(self) -> bool:
        """Return whether another generation's audit has found one of those wrong."""

    @property
    def computed_from(self) -> int:
        """The KV from this position on was computed in this slot; what is before it was moved in."""

    @property
    def least(self) -> int:
        """The least length above 0 that it can be trimmed to, or copied up to: rings have lost what is before."""

    @property
    def windows_from(self) -> int:
        """The position from which on the layers with rings have all rows."""

    @property
    def staged(self) -> int:
        """The position up to which KV was moved in for its holder, without that of rings; not committed."""

    @property
    def states(self) -> Mapping[int, int]:
        """Buffers with the state of recurrent layers, by the lengths at which there is one; none in other models."""

    @property
    def displaced(self) -> Mapping[int, int]:
        """The lengths of states of what was here before, by their buffers: they are still to be copied out."""

    def has_state(self, length: int, buffer: int) -> bool:
        """Return whether the state of so many tokens is still in that buffer, of what is here or was before."""

    def usable(self, length: int) -> int:
        """Return the greatest length up to that one from which a sequence can go on."""

    def branch_point(self, length: int) -> int:
        """Return the most tokens, up to that length, after which another sequence may go on otherwise."""

    @property
    def draft_first(self) -> int:
        """The first position of which the drafter has KV."""

    @property
    def draft_length(self) -> int:
        """The position after the last one of which it has KV: during a round beyond the committed tokens."""

    def resident(self) -> Resident:
        """Return what it holds now, in a copy that does not change with it."""


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """State of one slot, and how much KV is in it.

    Attributes:
        tokens: of the sequence that it works on.
        resident_tokens: whose KV stays in it while it is idle.
        draft_tokens: of which the drafter has KV: at rest no more than the resident ones.
        capacity: positions of its pages in the pool of KV.
    """

    id: int
    state: State | Literal["idle"]
    request_id: str | None
    tokens: int
    resident_tokens: int
    draft_tokens: int
    capacity: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A free slot, as the choice sees it.

    Attributes:
        resident: tokens of it.
        usable: of these, what the prompt goes on with.
        idle: grants since its release, of all slots together.
        is_held: a cancel left its tokens, and the retry may still come.
        session: whose request left them; None where that said nothing of a session.
        last_used: orders those that cost the same.
    """

    resident: int
    usable: int
    idle: int
    is_held: bool
    session: Session | None
    last_used: int


def grant_cost(
    candidate: Candidate, prompt_length: int, session: Session | None, slots: int, shared: int = 0
) -> tuple[bool, float, int]:
    """Return what is compared, the least first: tokens to compute, plus the resident ones lost.

    What is not there may be had of another place, for as much as a few rows cost.  So who begins as others do gets a
    place of its own, and leaves them theirs.

    These weigh less the longer nobody wanted them.  What a session left behind is the less wanted when that very
    session comes with another text (it was shortened, or begun anew), so it counts as if each slot had been granted
    once more; and if a cancel left it, the one who may come for it has come.  So a session displaces its own before
    another's, and never another's that it would not have displaced without its name.

    Args:
        candidate: free.
        prompt_length: tokens of the prompt.
        session: of the request; None where it says nothing of one.
        slots: how many there are.
        shared: tokens of the prompt that some place has, and that can be shared.
    """
    own = session is not None and candidate.session == session
    lost = candidate.resident - candidate.usable
    robbed = lost > candidate.usable and candidate.is_held and not own
    age = candidate.idle + (slots if own else 0)
    had = max(candidate.usable, shared - SHARING_COST)
    return robbed, (prompt_length - had) + lost / (1 + age), candidate.last_used


def resident_value(slot: SlotView, grants: int, now: float) -> tuple[bool, float, int]:
    """Return what is compared of residents, the least first, where one has to make room: its tokens.

    They weigh less the longer nobody wanted them, as in `grant_cost`; those that a cancel left and whose retry may
    still come are the last.

    Args:
        slot: free.
        grants: of all slots so far.
        now: on Trio's clock.
    """
    return slot.held_until > now, len(slot.tokens) / (1 + grants - slot.last_used), slot.last_used
