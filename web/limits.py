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

# --- one connection ---------------------------------------------------------------------------------------------------

MAX_UNHANDLED = 64 * KIB
"""Bytes read ahead of the protocol: room for any sane pipeline.  Beyond it the reader waits."""

HANDSHAKE_TIMEOUT = 15.0
"""Seconds for a TLS handshake."""

KEEP_ALIVE = 75.0
"""Seconds without a request until a connection is closed; so many, too, has a client for the head of one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What all clients together may take of the server, and one of them at a time.

    Attributes:
        connections: open TCP connections; one more is refused.
        streams: requests at a time on one HTTP/2 connection.
        body_bytes: of one request's body.
        bodies_bytes: of all bodies that are being read or were not yet understood.
        write_bytes: of one write to a connection; a longer answer is written in pieces, and others run in between.
        least_read: bytes that a reader has to take within each stall timeout, of what waits for it.  In 30 s this is
            550 bytes a second: a line that slow is a tenth of a dial-up's; a reader that takes a byte now and then,
            to hold what waits for it, is below.
        unread_bytes: of answers that were made and not yet taken by their readers, in all.
    """

    connections: int = 512
    streams: int = 100
    body_bytes: int = 16 * MIB
    bodies_bytes: int = 64 * MIB
    write_bytes: int = 64 * KIB
    least_read: int = 16 * KIB
    unread_bytes: int = 256 * MIB
