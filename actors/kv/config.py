"""Options for where and how KV is kept.  Torch is not imported: the command line reads them first."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from runtime.common.options import NOT_NEGATIVE, Option, Range
from runtime.common.units import GIB, MIB


@dataclass(frozen=True, slots=True)
class TierOptions:
    """Tiers that KV is kept in; the fields with an `Option` say themselves what they are.

    Attributes:
        flush_seconds: how long the end waits for what is still to be written.
    """

    ram: Annotated[
        int | None,
        Option(
            "Memory for KV blocks beyond the slots; auto is a fifth of what is free, 0 none.",
            unit="bytes",
            name="kv-ram",
            none=("auto",),
        ),
    ] = None
    folder: Annotated[
        Path | None,
        Option(
            "Keep KV blocks on disk, in this folder, across restarts; at most 256 MiB wait in memory to be written.",
            unit="folder",
            name="kv-dir",
            none=("none",),
        ),
    ] = None
    disk: Annotated[int, Option("Disk space for the blocks in --kv-dir.", unit="bytes", name="kv-disk")] = 8 * GIB
    flush_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Options for how KV is kept; the fields with an `Option` say themselves what they are.

    Attributes:
        piece_bytes: KV moved between two steps at most for each request that restores, and out of slots as much again,
            so that nobody's tokens wait long for it.
    """

    hold_seconds: Annotated[
        float,
        Option(
            "How long a cancelled request's KV is the last to be let go, for its retry.",
            NOT_NEGATIVE,
            unit="seconds",
            name="kv-hold",
        ),
    ] = 60.0
    audit_share: Annotated[
        float,
        Option(
            "Share of cache hits whose last block is computed again and compared.",
            Range(0, 1),
            unit="share",
            name="kv-audit",
        ),
    ] = 0.0
    piece_bytes: int = 32 * MIB
