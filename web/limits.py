"""Every bound on what a client controls, in one place: each has its unit, and its error names it.

The constants bound the fields of a request's body, and are part of the schemas (`web.schemas`).  `Limits` holds those
that whoever runs a server may want otherwise; `cede serve` has a flag for each.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.units import KIB, MIB

# --- one request's body -----------------------------------------------------------------------------------------------

MAX_NAME = 256
"""Characters of a name that is echoed or handed on: `model`, `user`, a message's `name` and `tool_call_id`."""

MAX_STOP_STRINGS = 16
"""Stop strings of a request."""

MAX_STOP_LENGTH = 1024
"""Characters of one stop string: their automaton has a state for each."""

MAX_CHOICES = 16
"""Choices for each prompt, `n`."""

MAX_BIASES = 1024
"""Entries of `logit_bias`: each is added again at every step, while the neighbours wait."""

MAX_UNKNOWN_FIELDS = 64
"""Fields that no schema has, in one object."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What all clients together may take of the server, and one of them at a time.

    Attributes:
        connections: open TCP connections; one more is refused.
        streams: requests at a time on one HTTP/2 connection.
        body_bytes: of one request's body.
        bodies_bytes: of all bodies that are being read or were not yet understood.
        write_bytes: of one write to a connection; what is longer is made and written in pieces, and others run in
            between.  As much as a TLS record or an HTTP/2 frame holds; of log-probabilities, one or two ms of work.
        answer_bytes: of one answer that was made and not yet taken by its reader: the events of a stream that is not
            read, or an answer that is sent whole.  What a request may ask for, choices times tokens times
            log-probabilities, has no bound of its own: it is seldom made, and a stream that is read takes no memory.
        unread_bytes: of all such answers.
    """

    connections: int = 512
    streams: int = 100
    body_bytes: int = 16 * MIB
    bodies_bytes: int = 64 * MIB
    write_bytes: int = 16 * KIB
    answer_bytes: int = 64 * MIB
    unread_bytes: int = 256 * MIB
