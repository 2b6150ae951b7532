"""A signal cancels a scope, so that whoever is in it can put things in order."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    import signal
    from collections.abc import AsyncIterator


class Interruption:
    """Record of the signal that cancelled a scope, if one did.

    Attributes:
        number: of the signal; None where none came.
    """

    def __init__(self) -> None:
        self.number: signal.Signals | None = None

    def __bool__(self) -> bool:
        """Return whether one came."""
        return self.number is not None


@asynccontextmanager
async def interrupted_by(*numbers: signal.Signals) -> AsyncIterator[Interruption]:
    """Cancel the body when one of these signals comes; code after the scope asks what was yielded.

    A second one does what it did before the scope, as soon as the body has ended.
    """
    interruption = Interruption()
    with trio.open_signal_receiver(*numbers) as signals:
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                interruption.number = signal_of(await anext(signals))
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait)
            yield interruption
            nursery.cancel_scope.cancel()


def signal_of(number: int) -> signal.Signals:
    """The signal of a number."""
    import signal

    return signal.Signals(number)
