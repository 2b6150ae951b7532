"""Control of a request over its own fate: plain frozen data.  The defaults are for a request that says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

OnDisconnect: TypeAlias = Literal["cancel", "finish_prefill", "detach"]
"""What a hang-up can mean for a request: its end; its end when its prompt is read; or nothing, within bounds."""


@dataclass(frozen=True, slots=True)
class Control:
    """The choices of one request.  Its fields are named as in a body's `cede` (`web.generation.control.fields`).

    Attributes:
        on_disconnect: what a hang-up means.
        group: its name, a path, by which all of the group can be ended; None for no group.
        first_wins: of those in the group that say so, the first that finishes well ends the others.
        supersede: ends the one before that has the same, and takes its place.
        after: the id of the request after whose end this one starts.
        grace_s: seconds for which it goes on after a hang-up, as if nothing had been; None for none, or where it is to
            go on for as long as the server lets it.
        keep_s: seconds for which its answer is kept when it has ended; None for the server's default.
        warm: it reads its prompt while nobody else has work, and ends as soon as somebody has (`actors.spare_time`).
    """

    on_disconnect: OnDisconnect = "cancel"
    group: str | None = None
    first_wins: bool = False
    supersede: str | None = None
    after: str | None = None
    grace_s: float | None = None
    keep_s: float | None = None
    warm: bool = False

    @property
    def outlives_client(self) -> bool:
        """Return whether the request may go on, for however short a time, when its client has gone."""
        return self.on_disconnect != "cancel" or bool(self.grace_s)


NO_CONTROL = Control()
"""That of a request which says nothing."""
