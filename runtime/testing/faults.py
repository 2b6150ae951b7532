"""Faults to order: a plan says what goes wrong, where and when.

    plan = FaultPlan((DeviceError(step=5, layer=2), NotFinite(step=9), BitFlip(write=3)))

A plan is plain frozen data, so a test can draw one at random and print it; `web.testing.chaos` reads one from TOML for
a running server.  `Chaos` is a plan under way: it knows what is due, and records what has happened.  Who carries
the faults out: `runtime.testing.unreliable` in the device and on disk, `actors.testing.chaos` where it takes Trio.

Everything is counted from 1, except layers, which have indices.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, TypeVar

logger = logging.getLogger("cede.chaos")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """Base of all faults: `every` makes one recur, after so many more of what it counts."""

    counts: ClassVar[str] = "step"  # the field that says when

    every: int | None = None

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 1:
            raise ValueError("'every' must be at least 1")
        if self.first < 1:
            raise ValueError(f"{self.counts!r} must be at least 1: counting starts there")

    @property
    def first(self) -> int:
        """Count at which it happens first."""
        when: int = getattr(self, self.counts)
        return when

    def is_due(self, count: int) -> bool:
        """Return whether it happens at this count."""
        if self.every is None:
            return count == self.first
        return count >= self.first and (count - self.first) % self.every == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _StepFault(_Fault):
    """At the `step`-th step of the target, or with `drafting` of the drafter.  Steps that repeat one count as well."""

    step: int
    drafting: bool = False


# --- the device -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceError(_StepFault):
    """The step raises in this layer, or in the last one where there are fewer."""

    what: Literal["device-error"] = "device-error"
    layer: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory(_StepFault):
    """The step raises PyTorch's own error for it, in this layer."""

    what: Literal["out-of-memory"] = "out-of-memory"
    layer: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFinite(_StepFault):
    """One segment of the step, by its place among those that are left at the end, yields NaN logits."""

    what: Literal["nan-logits"] = "nan-logits"
    segment: int = 0  # modulo their number


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStep(_StepFault):
    """Slow layer, which takes so many seconds longer; longer than the server's hang timeout, and the device hangs."""

    seconds: float
    what: Literal["slow-step"] = "slow-step"
    layer: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferError(_Fault):
    """The `transfer`-th piece of KV that is moved between steps is not."""

    counts: ClassVar[str] = "transfer"

    transfer: int
    what: Literal["transfer-error"] = "transfer-error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadDeath(_StepFault):
    """The device thread ends in this layer."""

    what: Literal["thread-death"] = "thread-death"
    layer: int = 0


# --- the disk ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _DiskFault(_Fault):
    """At the `write`-th block that the disk tier writes."""

    counts: ClassVar[str] = "write"

    write: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskError(_DiskFault):
    """The disk refuses the write."""

    what: Literal["disk-error"] = "disk-error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortWrite(_DiskFault):
    """The end of the file is lost after it was reported written, as a power cut can do."""

    what: Literal["short-write"] = "short-write"
    lost: int = 1  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BitFlip(_DiskFault):
    """A bit of the file changes after it was written."""

    what: Literal["bit-flip"] = "bit-flip"
    bit: int = -1  # its place in the file, modulo the file's length


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRead(_Fault):
    """The `read`-th block that the disk tier reads takes so many seconds longer; for ever, if they are enough."""

    counts: ClassVar[str] = "read"

    read: int
    seconds: float
    what: Literal["slow-read"] = "slow-read"


# --- the world --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJump(_StepFault):
    """While that step runs, the clock of all deadlines jumps ahead, as after a machine's sleep."""

    seconds: float
    what: Literal["clock-jump"] = "clock-jump"


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxFlood(_StepFault):
    """While that step runs, so many clients come and are gone in the same moment."""

    requests: int
    what: Literal["mailbox-flood"] = "mailbox-flood"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown(_StepFault):
    """While that step runs, the server is told to end; what runs has `grace` seconds."""

    grace: float = 0.0
    what: Literal["shutdown"] = "shutdown"


Actor: TypeAlias = Literal["queue", "restore", "prefill", "decode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAt(_Fault):
    """Whichever request makes an actor of this kind pass its `checkpoint`-th checkpoint is cancelled right there."""

    counts: ClassVar[str] = "checkpoint"

    actor: Actor
    checkpoint: int
    what: Literal["cancel"] = "cancel"


Fault: TypeAlias = (
    DeviceError
    | OutOfMemory
    | NotFinite
    | SlowStep
    | TransferError
    | ThreadDeath
    | DiskError
    | ShortWrite
    | BitFlip
    | SlowRead
    | ClockJump
    | MailboxFlood
    | Shutdown
    | CancelAt
)
StepFault: TypeAlias = (
    DeviceError | OutOfMemory | NotFinite | SlowStep | ThreadDeath | ClockJump | MailboxFlood | Shutdown
)
FaultT = TypeVar("FaultT", bound=_Fault)
StepFaultT = TypeVar("StepFaultT", bound=_StepFault)


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """All that is to go wrong."""

    fault: tuple[Fault, ...] = ()

    def of(self, kind: type[FaultT]) -> list[FaultT]:
        """The faults of one kind, or of a family of them."""
        return [fault for fault in self.fault if isinstance(fault, kind)]


@dataclass(slots=True)
class Chaos:
    """A plan under way, and what has happened of it.

    The event loop, the device thread and the disk's threads each ask for kinds of their own, and a record is one list
    append, so there is no lock.
    """

    plan: FaultPlan
    fired: list[Fault] = field(default_factory=list)  # in the order in which they happened

    def due(self, kind: type[FaultT], count: int) -> list[FaultT]:
        """The faults of a kind that happen at this count.  They have not happened before `fire` says so."""
        return [fault for fault in self.plan.of(kind) if fault.is_due(count)]

    def due_at_step(self, kind: type[StepFaultT], step: int, *, drafting: bool) -> list[StepFaultT]:
        """As `due`, for a step of the target or of the drafter."""
        return [fault for fault in self.due(kind, step) if fault.drafting == drafting]

    def has_happened(self, kind: type[_Fault]) -> bool:
        """Return whether a fault of this kind has."""
        return any(isinstance(fault, kind) for fault in self.fired)

    def fire(self, fault: Fault) -> None:
        """Note, loudly, that a fault happens now."""
        logger.warning("chaos: %s", fault)
        self.fired.append(fault)
