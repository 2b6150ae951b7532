"""Fields that mean nothing to the server: each is told of once, not with every request."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from runtime.common.log_text import literal

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger("cede.web")

MOST_NAMES = 1000
"""Names that are remembered; after so many, nothing new is told."""

MOST_TOLD = 20
"""Names that a line in the log has."""


class IgnoredFields:
    """Tells in the log which fields of bodies were ignored, each name once for as long as the server runs.

    Threads that parse bodies share it: at worst a name is told twice.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, request_id: str, names: Iterable[str]) -> None:
        """Log those of `names` that were not told before; a client chose them, so they are shown as literals."""
        new = [name for name in names if name not in self._told][:MOST_TOLD]
        if new and len(self._told) < MOST_NAMES:
            self._told.update(new)
            logger.info(
                "%s: ignored unknown fields: %s", request_id, literal(", ".join(new)), extra={"request_id": request_id}
            )
