"""I13: with isolation, nobody is served KV that was computed for another owner."""

from __future__ import annotations

from collections.abc import Callable

from actors.core.events import Committed, Exchanged, Granted, Queued, Resumed, TransferBegins, Transferred
from actors.core.observer import Observer
from actors.core.slot_views import GenerationKey
from actors.core.slots import SlotTable
from runtime.kv.blocks import BLOCK_TOKENS, BlockKey
from runtime.step.transfer import Copy, Load, Save


class Isolation(Observer):
    """Follows each row of KV from the request that computed it to those that are served it.

    Rows are followed by where they are: by slot and position, and outside the slots by the name of their block.  Of a
    block that an earlier server left on disk nothing is known.

    Args:
        table: whose slots say which blocks were moved in.
        violated: is told what does not hold.
    """

    def __init__(self, table: SlotTable, violated: Callable[[str], None]) -> None:
        self._table = table
        self._violated = violated
        self._owners: dict[GenerationKey, str | None] = {}
        self._rows: dict[tuple[int, int], str | None] = {}  # for whom each was computed, by slot and position
        self._blocks: dict[BlockKey, set[str | None]] = {}  # the same of blocks outside the slots
        self._copied: set[tuple[int, int]] = set()  # places whose rows came from another slot

    def queued(self, event: Queued) -> None:
        """Note whose a generation is."""
        self._owners[event.key] = event.owner

    def granted(self, event: Granted) -> None:
        """Check what is in the slot already."""
        self._check(event.key, event.slot, 0, event.cached_tokens)

    def resumed(self, event: Resumed) -> None:
        """Check the same of one that was preempted."""
        self._check(event.key, event.slot, 0, event.cached_tokens)

    def exchanged(self, event: Exchanged) -> None:
        """Note where the rows of a slot and of a retained extent are now."""
        names = {event.slot: event.retained, event.retained: event.slot}
        self._rows = {(names.get(slot, slot), place): owner for (slot, place), owner in self._rows.items()}
        self._copied = {(names.get(slot, slot), place) for slot, place in self._copied}

    def committed(self, event: Committed) -> None:
        """Note for whom rows were computed."""
        if not event.drafting:
            for place in range(event.start, event.start + event.rows):
                self._rows[event.slot, place] = self._owners[event.key]
                self._copied.discard((event.slot, place))

    def transfer_begins(self, event: TransferBegins) -> None:
        """Note whose rows leave a slot."""
        for block, save in zip(event.saved, event.transfers, strict=False):
            if not isinstance(save, Save):  # a state, which nobody has without the block before it
                continue
            places = range(block.start, save.end)
            owners = {self._rows[block.slot, place] for place in places if (block.slot, place) in self._rows}
            self._blocks.setdefault(block.key, set()).update(owners)
        for transfer in event.transfers:
            if isinstance(transfer, Load):  # what was copied there before was for somebody who left meanwhile
                self._copied = {(slot, place) for slot, place in self._copied if slot != transfer.slot}
            if isinstance(transfer, Copy):
                for place in range(transfer.start, transfer.end):
                    self._copied.add((transfer.slot, place))
                    self._rows[transfer.slot, place] = self._rows[transfer.source, place]

    def transferred(self, event: Transferred) -> None:
        """Check what has come from another slot, or by its name from a tier."""
        keys = self._table.slot(event.slot).tokens.keys
        for place in range(event.start, event.start + event.tokens):
            if (event.slot, place) in self._copied:
                self._copied.discard((event.slot, place))
                continue
            number, mine = place // BLOCK_TOKENS, {self._owners[event.key]}
            owners = (
                self._blocks.get(keys[number], mine) if number < len(keys) else mine
            )  # else of a preempted one's end
            self._rows[event.slot, place] = min(owners, key=lambda owner: owner == self._owners[event.key])
        self._check(event.key, event.slot, event.start, event.start + event.tokens)

    def _check(self, key: GenerationKey, slot: int, start: int, end: int) -> None:
        owner = self._owners[key]
        others = {self._rows[slot, place] for place in range(start, end)} - {owner}
        if others:
            self._violated(f"I13: {key} is {owner}'s, and is served KV in slot {slot} that was computed for {others}")
