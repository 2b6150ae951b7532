"""The seam: an `Observer` learns what the engine does, in the manner of `trio.abc.Instrument`.

    class Queue(Observer):
        def queued(self, event: Queued) -> None: ...
        def granted(self, event: Granted) -> None: ...

    with engine.observed_by(Queue()):
        ...

The simulation, the self-test and planned faults see the engine's inside in this way and in no other.  A hook is a plain
function that is called in the moment it names, on the event loop's thread unless its event says otherwise.  It must
not block.  Its argument is a frozen event; `actors.core.events.Hooks` names them all.

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
from typing import TYPE_CHECKING, Any

from actors.core.events import HOOKS, Hooks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.core.events import EventT, Hook

logger = logging.getLogger("cede.engine")


class Observer(Hooks):
    """Listens to an engine.  Define a method for each hook that you want to hear; there are none here.

    A hook that raises is a bug of the observer's: it is logged, and the observer is told nothing more.
    """


class Observers(Hooks):
    """All observers of one engine; each hook has the methods of those that define it.

    Observers are added and removed on the event loop's thread.  One whose `layer_done` raises is removed on the device
    thread; tuples are replaced and never changed, so whoever reads one meanwhile has a whole one.
    """

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
        assert isinstance(hook, tuple)
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
            setattr(self, name, tuple(getattr(observer, name) for observer in self._all if hasattr(observer, name)))


def _observer_of(method: Any) -> Observer:  # noqa: ANN401  a bound method, which `Callable` does not say
    observer: Observer = method.__self__
    return observer
