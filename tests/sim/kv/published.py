"""I26: who is told of KV blocks knows which are held and can be reached, and of none that are private."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from actors.core.events import (
    Arrived,
    Committed,
    Exchanged,
    Granted,
    Resumed,
    StepBegins,
    TransferBegins,
    Transferred,
)
from actors.core.observer import Observer
from actors.manager.block_news import told_of_blocks
from actors.manager.slot_manager import SlotManager
from runtime.kv.blocks import BLOCK_TOKENS, Block, BlockKey, block_keys


class Published(Observer):
    """A listener that holds what it is told against the slots and the tiers.

    Args:
        manager: of the slots and the tiers.
        violated: told what does not hold.
    """

    def __init__(self, manager: SlotManager, violated: Callable[[str], None]) -> None:
        self._manager = manager
        self._violated = violated
        self._told: dict[BlockKey, BlockKey] = {}  # parents
        self._parents: dict[BlockKey, BlockKey] = {}  # of all blocks that were ever in a slot
        self._reusing: dict[str, bool] = {}  # requests, by whether they reuse KV
        self._ever_public: set[BlockKey] = set()
        self._public_slots: set[int] = set()  # last granted to a request that reuses KV
        self._public: set[BlockKey] = set()  # at the last check
        self._was_on_disk: set[BlockKey] = set()  # likewise
        self._listens = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Be told, and check that, while the scope lasts."""
        with told_of_blocks(self._manager, self):
            self._listens = True
            try:
                yield
            finally:
                self._listens = False

    @property
    def told(self) -> set[BlockKey]:
        """Return what it knows."""
        return set(self._told)

    # --- what it is told ----------------------------------------------------------------------------------------------

    def stored(self, parent: BlockKey, keys: Sequence[BlockKey], token_ids: Sequence[int]) -> None:
        """Note blocks, each of which follows one that is known."""
        if parent != self._manager.cache.root and parent not in self._told:
            self._violated(f"I26: blocks are told of, and not what is before them: {keys[0].hex()}")
        if block_keys(parent, token_ids) != list(keys) or len(token_ids) != len(keys) * BLOCK_TOKENS:
            self._violated(f"I26: the names of blocks are not those of their tokens: {keys[0].hex()}")
        for key in keys:
            if key in self._told:
                self._violated(f"I26: a block is told of that is known: {key.hex()}")
            self._told[key], parent = parent, key

    def removed(self, keys: Sequence[BlockKey]) -> None:
        """Forget blocks, each of which is known."""
        for key in keys:
            if self._told.pop(key, None) is None:
                self._violated(f"I26: a block is taken back that is not known: {key.hex()}")

    # --- whose tokens are in which slot -------------------------------------------------------------------------------

    def arrived(self, event: Arrived) -> None:
        """Note whether it reuses KV."""
        self._reusing[event.asked.id] = event.asked.reuses_kv

    def granted(self, event: Granted) -> None:
        """Note what it goes on with."""
        self._note(event.slot)

    def resumed(self, event: Resumed) -> None:
        """Note what it goes on with."""
        self._note(event.slot)

    def exchanged(self, event: Exchanged) -> None:
        """Note which of the two is public now."""
        names = {event.slot: event.retained, event.retained: event.slot}
        self._public_slots = {names.get(slot, slot) for slot in self._public_slots}

    def committed(self, event: Committed) -> None:
        """Note what it has computed."""
        self._note(event.slot)

    def transferred(self, event: Transferred) -> None:
        """Note what it was given."""
        self._note(event.slot)

    def _note(self, number: int) -> None:
        slot = self._manager.table.slot(number)
        for place, key in enumerate(slot.tokens.keys):
            self._parents[key] = slot.tokens.parent(place)
        if slot.owner is None:
            return
        self._public_slots.discard(number)
        if self._reusing[slot.owner[0]]:
            self._public_slots.add(number)
            self._ever_public.update(slot.tokens.keys)

    def _note_others(self, blocks: Iterable[Block]) -> None:
        """Note what is in memory, and was in no slot: a disk had it from an earlier run, or a test has put it there."""
        for block in blocks:
            if block.key not in self._parents and not block.private:
                self._parents[block.key] = block.parent
                self._ever_public.add(block.key)

    # --- moments ------------------------------------------------------------------------------------------------------

    def step_begins(self, event: StepBegins) -> None:
        """Check."""
        self._check()

    def transfer_begins(self, event: TransferBegins) -> None:
        """Check."""
        self._check()

    def _check(self) -> None:
        if not self._listens:
            return
        self._manager.cache.tiers.settle_losses()
        in_memory = list(self._in_memory())
        self._note_others(in_memory)
        on_disk = self._on_disk()
        held = (
            {key for slot in self._manager.table.places for key in slot.tokens.keys}
            | {block.key for block in in_memory}
            | on_disk
        )
        self._public &= on_disk & self._was_on_disk
        self._was_on_disk = on_disk
        self._public |= {block.key for block in in_memory if block.key in self._ever_public and not block.private}
        self._public |= {
            key for slot in self._manager.table.places if slot.id in self._public_slots for key in slot.tokens.keys
        }
        told = set(self._told)
        if stale := told - held:
            self._violated(f"I26: {len(stale)} blocks are told of, and nobody holds them")
        if private := told - self._ever_public:
            self._violated(f"I26: {len(private)} blocks are told of that no request had that reuses KV")
        if missing := self._reached(self._public) - told:
            self._violated(f"I26: {len(missing)} blocks are held, and nobody is told of them")

    def _in_memory(self) -> Iterator[Block]:
        """The complete blocks in host memory."""
        ram = self._manager.cache.tiers.ram
        blocks = map(ram.get, ram)
        return (block for block in blocks if block is not None and len(block.token_ids) == BLOCK_TOKENS)

    def _on_disk(self) -> set[BlockKey]:
        """The blocks that a disk has, of those that were ever in a slot or in memory."""
        disk = self._manager.cache.tiers.disk
        return set() if disk is None else disk.held(list(self._parents))

    def _reached(self, keys: set[BlockKey]) -> set[BlockKey]:
        """Return those whose parents are all among them, up to the model's root."""
        root = self._manager.cache.root
        reached: set[BlockKey] = set()
        for key in keys:
            path, at = [], key
            while at in keys and at not in reached:
                path.append(at)
                at = self._parents[at]
            if at == root or at in reached:
                reached.update(path)
        return reached
