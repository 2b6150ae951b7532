"""The seam: an `Observer` learns what the engine does, in the manner of `trio.abc.Instrument`.

    class Queue(Observer):
        def queued(self, event: Queued) -> None: ...
        def granted(self, event: Granted) -> None: ...

    with engine.observed_by(Queue()):
        ...

The simulation, the self-test and planned faults see the engine's inside in this way and in no other.  A hook is a plain
function that is called in the moment it names, on the event loop's thread unless its docstring says otherwise.  It must
not block.  Its argument is a frozen event (`actors.core.events`).

No event is made unless somebody listens.  A call site asks first:

    if observers.granted:
        observers.tell(observers.granted, Granted(...))

For one generation the order is `queued`, `granted`, its work, `released`, `ended`; if it is cancelled, `cancelled` and
then `receipt` come before `released`.  `emitted` belongs to its work; so do `preempted` and `resumed`, in turns, and
between the two it may be released.  All of a request's generations, or its one `refused`, are between `arrived` and
`departed`, which come in pairs.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.core.events import (
        Arrived,
        AuditFailed,
        Cancelled,
        Committed,
        Demoted,
        Departed,
        DeviceIsBack,
        DeviceIsLost,
        Emitted,
        Ended,
        Exchanged,
        Granted,
        HandedBack,
        Invalidated,
        LayerDone,
        Preempted,
        Queued,
        Refused,
        Released,
        Resumed,
        StageBegun,
        StepBegins,
        StepEnded,
        StepRaised,
        Submitted,
        TransferBegins,
        TransferEnded,
        Transferred,
    )
    from actors.core.receipts import Receipt

logger = logging.getLogger("cede.engine")

EventT = TypeVar("EventT")


class Observer:
    """Listens to an engine.  Each hook does nothing here; override those that you want to hear.

    A hook that raises is a bug of the observer's: it is logged, and the observer is told nothing more.
    """

    def arrived(self, event: Arrived) -> None:
        """A request came.  Called in the task that opened it."""

    def departed(self, event: Departed) -> None:
        """A request is over, and its response sent or given up.  Called in the task that opened it."""

    def queued(self, event: Queued) -> None:
        """A generation has joined the queue."""

    def demoted(self, event: Demoted) -> None:
        """A generation that waits, or holds a slot, became less important."""

    def refused(self, event: Refused) -> None:
        """A request was refused a place in the queue."""

    def granted(self, event: Granted) -> None:
        """A slot was granted."""

    def preempted(self, event: Preempted) -> None:
        """A generation has left its slot to a more important one, and waits again."""

    def exchanged(self, event: Exchanged) -> None:
        """A slot and a retained extent have what the other had."""

    def resumed(self, event: Resumed) -> None:
        """One that was preempted has a slot again."""

    def stage_begun(self, event: StageBegun) -> None:
        """A generation's task, which is the current one, turned to another stage."""

    def submitted(self, event: Submitted) -> None:
        """An actor has asked for rows to be run."""

    def handed_back(self, event: HandedBack) -> None:
        """Rows that were submitted will not be run."""

    def step_begins(self, event: StepBegins) -> None:
        """A step is about to be given to the device."""

    def layer_done(self, event: LayerDone) -> None:
        """A layer has ended.  Called on the device thread; in virtual time, in the task that awaits the step."""

    def step_ended(self, event: StepEnded) -> None:
        """A step has ended well; nothing of it is committed yet."""

    def step_raised(self, event: StepRaised) -> None:
        """A step has raised; its generations were not told yet."""

    def committed(self, event: Committed) -> None:
        """Rows that a step computed are valid now."""

    def verified(self, event: Committed) -> None:
        """Hear that of rows that are valid now some were drafts: before `committed`."""

    def invalidated(self, event: Invalidated) -> None:
        """A slot's KV was given up, whether its generation goes on or not."""

    def transfer_begins(self, event: TransferBegins) -> None:
        """KV is about to be moved by the device."""

    def transfer_ended(self, event: TransferEnded) -> None:
        """The device is done with moving KV; not called if it is lost over that."""

    def transferred(self, event: Transferred) -> None:
        """KV that was moved into a slot is valid now."""

    def audit_failed(self, event: AuditFailed) -> None:
        """An audit failed; called before anything is given up for it."""

    def cancelled(self, event: Cancelled) -> None:
        """A generation was cancelled, in this very moment."""

    def receipt(self, event: Receipt) -> None:
        """A cancelled generation has its receipt."""

    def released(self, event: Released) -> None:
        """A generation is over, and its slot free."""

    def emitted(self, event: Emitted) -> None:
        """Tokens were added to a generation's output."""

    def ended(self, event: Ended) -> None:
        """A generation that had joined the queue is over, and its client is about to be told."""

    def device_lost(self, event: DeviceIsLost) -> None:
        """The device is lost, or lost for good; all whom that ends were told."""

    def device_back(self, event: DeviceIsBack) -> None:
        """Steps can run again."""


HOOKS = tuple(name for name in vars(Observer) if not name.startswith("_"))

Hook: TypeAlias = "tuple[Callable[[EventT], None], ...]"


class Observers:
    """All observers of one engine; each attribute has the methods of those that override that hook.

    Observers are added and removed on the event loop's thread.  One whose `layer_done` raises is removed on the device
    thread; tuples are replaced and never changed, so whoever reads one meanwhile has a whole one.
    """

    arrived: Hook[Arrived]
    departed: Hook[Departed]
    queued: Hook[Queued]
    demoted: Hook[Demoted]
    refused: Hook[Refused]
    granted: Hook[Granted]
    preempted: Hook[Preempted]
    exchanged: Hook[Exchanged]
    resumed: Hook[Resumed]
    stage_begun: Hook[StageBegun]
    submitted: Hook[Submitted]
    handed_back: Hook[HandedBack]
    step_begins: Hook[StepBegins]
    layer_done: Hook[LayerDone]
    step_ended: Hook[StepEnded]
    step_raised: Hook[StepRaised]
    committed: Hook[Committed]
    verified: Hook[Committed]
    invalidated: Hook[Invalidated]
    transfer_begins: Hook[TransferBegins]
    transfer_ended: Hook[TransferEnded]
    transferred: Hook[Transferred]
    audit_failed: Hook[AuditFailed]
    cancelled: Hook[Cancelled]
    receipt: Hook[Receipt]
    released: Hook[Released]
    emitted: Hook[Emitted]
    ended: Hook[Ended]
    device_lost: Hook[DeviceIsLost]
    device_back: Hook[DeviceIsBack]

    def __init__(self) -> None:
        self._all: tuple[Observer, ...] = ()
        self._look_up_hooks()

    @contextmanager
    def including(self, *observers: Observer) -> Iterator[None]:
        """Tell these as well, until the scope ends."""
        self._all += observers
        self._look_up_hooks()
        try:
            yield
        finally:
            for observer in observers:
                self._remove(observer)

    def __contains__(self, observer: Observer) -> bool:
        """Return whether it is told of events; false for one that has raised."""
        return any(other is observer for other in self._all)

    def tell(self, hook: Hook[EventT], event: EventT) -> None:
        """Call the methods of a hook; an observer that raises is logged and removed, and the others are still told."""
        for method in hook:
            try:
                method(event)
            except Exception:
                observer = _observer_of(method)
                logger.exception("an observer raised, and is told nothing more: %r", observer)
                self._remove(observer)

    def _remove(self, observer: Observer) -> None:
        self._all = tuple(other for other in self._all if other is not observer)
        self._look_up_hooks()

    def _look_up_hooks(self) -> None:
        for name in HOOKS:
            methods = (getattr(observer, name) for observer in self._all)
            setattr(self, name, tuple(method for method in methods if method.__func__ is not getattr(Observer, name)))


def _observer_of(method: Any) -> Observer:  # noqa: ANN401  a bound method, which `Callable` does not say
    observer: Observer = method.__self__
    return observer
