"""Errors as the front door is told them: some move the request to another worker, others are the client's answer.

Which of Dynamo's exceptions does what was found by experiment (docs/use/cluster.md).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from runtime.errors import CedeError, DeviceLost, QueueFull, RequestError, ShuttingDown

if TYPE_CHECKING:
    from collections.abc import Callable


class Fate(enum.Enum):
    """Fate of a request that a worker could not serve.

    Attributes:
        ELSEWHERE: another worker is asked, and this one again whenever it is its turn.
        LEFT: another worker is asked, and this one is left alone for some seconds.
        REFUSED: the client is told that the request is wrong.
        LATER: the client is told to come again.
        BROKEN: the client is told that something is wrong here.
    """

    ELSEWHERE = "elsewhere"
    LEFT = "left"
    REFUSED = "refused"
    LATER = "later"
    BROKEN = "broken"


def fate_of(error: CedeError) -> Fate:
    """Return what an error of the engine's means for the request."""
    match error:
        case QueueFull():
            return Fate.ELSEWHERE
        case ShuttingDown() | DeviceLost():
            return Fate.LEFT
        case RequestError():
            return Fate.REFUSED
    return Fate.LATER if error.status in (429, 503, 504) else Fate.BROKEN


def dynamo_error(error: CedeError) -> Exception:
    """The exception that tells Dynamo so."""
    from dynamo.llm import HttpError
    from dynamo.llm.exceptions import CannotConnect, EngineShutdown, InvalidArgument, Unknown

    make: dict[Fate, Callable[[str], Exception]] = {
        Fate.ELSEWHERE: CannotConnect,
        Fate.LEFT: EngineShutdown,
        Fate.REFUSED: InvalidArgument,
        Fate.LATER: lambda text: HttpError(503, text),
        Fate.BROKEN: Unknown,
    }
    return make[fate_of(error)](str(error))
