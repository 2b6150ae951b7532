"""Transfers that were planned for a command, with what is to be committed when they are done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.core.slot_views import NOT_RESTORED, Provenance
from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.core.commands import KVCommand, LoadBlocks, Loaded
    from actors.core.holds import HoldRecord
    from runtime.kv.blocks import Block, BlockKey
    from runtime.step.transfer import Transfer


@dataclass(frozen=True, slots=True)
class PlannedTransfers:
    """A command and the transfers that carry it out, with what was known when they were planned.

    Attributes:
        record: whose slot it is.
        command: the actor's.
        transfers: for the executor.
        end: how many tokens the slot has KV of when it is done.
        source: where the KV comes from.
        least: the least length that the slot can go on from when it is done; None where it can from none yet, for what
            rings need comes with the last piece.
        loaded: the answer to `LoadBlocks`.
        alarms: times that KV had been found wrong by then.
    """

    record: HoldRecord
    command: KVCommand
    transfers: Sequence[Transfer]
    end: int
    source: Provenance = NOT_RESTORED
    least: int | None = 0
    loaded: Loaded | None = None
    alarms: int = 0


def places_of(keys: Iterable[BlockKey], first: int) -> dict[BlockKey, int]:
    """Return the first positions of blocks, of which the first has this number."""
    return {key: number * BLOCK_TOKENS for number, key in enumerate(keys, start=first)}


def end_of(command: LoadBlocks, blocks: Sequence[Block]) -> int:
    """Return the position behind these blocks, of which the last may be incomplete."""
    return command.first * BLOCK_TOKENS + sum(len(block.token_ids) for block in blocks)
