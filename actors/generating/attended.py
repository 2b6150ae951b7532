"""Scope of a request from its coming to its end, whatever that is."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from structlog.contextvars import bound_contextvars

from actors.core.events import Arrived, Departed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.core.generation import GenerationRequest
    from actors.core.observer import Observers


@contextmanager
def attended(asked: GenerationRequest, observers: Observers) -> Iterator[None]:
    """Tell observers of a request's coming and end, and name it in each line that its tasks log meanwhile.

    Tasks that are started within take the name along.
    """
    with bound_contextvars(request_id=asked.id):
        if observers.arrived:
            observers.tell(observers.arrived, Arrived(asked))
        try:
            yield
        finally:
            if observers.departed:
                observers.tell(observers.departed, Departed(asked))
