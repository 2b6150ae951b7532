"""Every bound on what a client controls, in one place: each has its unit, and its error names it.

The constants bound the fields of a request's body, and are part of the schemas
(`web.generation.openai_format.schemas`).  `Limits` holds those that whoever runs a server may want otherwise; `cede
serve` has a flag for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from runtime.common.options import POSITIVE, Option, whole
from runtime.common.units import KIB, MIB

# --- one request's body -----------------------------------------------------------------------------------------------

MAX_NAME = 256
"""Characters of a name that is echoed or handed on: `model`, `user`, a message's `name` and `tool_call_id`; also of the
name of a field that no schema has."""

MAX_TEXT = 16 * MIB
"""Characters of one text: a prompt, a message's content or a part of it.  The context, which the schemas do not know,
bounds it further (`runtime.text.prompt_tokens`)."""

MAX_MESSAGES = 2048
"""Messages of a conversation: the chat template is a program that goes through them."""

MAX_PARTS = 1024
"""Text parts of one message's content."""

MAX_PROMPTS = 4096
"""Prompts of a request; the engine's slots and queue bound their number further."""

MAX_INPUTS = 2048
"""Inputs of an embedding request, as many as OpenAI's API takes."""

MAX_PROMPT_IDS = 2**20
"""Token ids of one prompt; the context bounds their number further."""

MAX_TOKEN_ID = 2**31 - 1
"""The largest token id that is looked at; the vocabulary bounds it further."""

MAX_INTEGER = 2**63 - 1
"""The largest of all other integers: some clients write it where they want no limit."""

MAX_PRIORITY = 1000
"""The largest `priority`, and its negative the least."""

MAX_STOP_STRINGS = 16
"""Stop strings of a request."""

MAX_STOP_LENGTH = 1024
"""Characters of one stop string: their automaton has a state for each."""

MAX_CHOICES = 16
"""Choices for each prompt, `n`."""

MAX_BIASES = 1024
"""Entries of `logit_bias`: each is added again at every step, while the neighbours wait."""

MAX_STOP_IDS = 256
"""Token ids that end an output."""

MAX_BAD_WORDS = 128
"""Words that no output has: each is looked for at every step, while the neighbours wait."""

MAX_BAD_WORD_LENGTH = 64
"""Characters of one of them."""

MAX_ALLOWED_IDS = 128 * KIB
"""Token ids that may be drawn."""

MAX_DIGITS = 20
"""Characters of a token id where it is a key, as in `logit_bias`."""

MAX_LOGPROBS = 20
"""Alternatives shown for each token."""

MAX_UNKNOWN_FIELDS = 64
"""Fields that no schema has, in one object."""

MAX_TEMPLATE_VARIABLES = 64
"""Entries of `chat_template_kwargs`."""

MAX_TEMPLATE_VALUES = 1024
"""Values in `chat_template_kwargs`, at any depth."""

MAX_TEMPLATE_TEXT = 64 * KIB
"""Characters in `chat_template_kwargs`, of all keys and strings."""

MAX_METADATA = 16
MAX_METADATA_NAME = 64
MAX_METADATA_VALUE = 512
"""Entries of `metadata`, and characters of their names and values: OpenAI's bounds."""

MAX_CALLS = 256
"""Tool calls of one message."""

MAX_FILES = 1024
"""Pieces of other files beside a gap."""

MAX_RESPONSE_FIELDS = 64
"""Paths of fields that a client wants of an answer."""

MAX_SAMPLERS = 32
"""Names of samplers."""

MAX_TOOLS = 512
"""Tools of a request: some agents bring those of many servers."""

MAX_SCHEMA_VALUES = 8 * KIB
"""Values in one JSON schema, at any depth."""

MAX_SCHEMA_TEXT = 256 * KIB
"""Characters in one JSON schema, of all keys and strings."""

MAX_ARGUMENT_VALUES = 16 * KIB
"""Values in one call's arguments, where they are an object; they may hold the text of a file."""

MAX_GRAMMAR = 256 * KIB
"""Characters of a regular expression or of another grammar."""

MAX_GUIDED_CHOICES = 4096
"""Texts of which an output has to be one."""

MAX_OBJECTS = 24 * KIB
"""Strings (keys are strings) and objects in a body: the parser holds the interpreter while it makes them, about
half a microsecond for each."""

MAX_ARRAYS = 6 * KIB
"""Arrays in a body: those of prompts and of messages' parts are far fewer, and an array of numbers costs the most."""

MAX_VALUES = 128 * KIB
"""Values in a body beyond the context's length, which are numbers for the most part: 0.1 microseconds for each."""

# --- one connection ---------------------------------------------------------------------------------------------------

MAX_UNHANDLED = 64 * KIB
"""Bytes read ahead of the protocol: room for any sane pipeline.  Beyond it the reader waits."""

FRAME_BURST = 1500
"""Frames of HTTP/2 that bring no work, at once; a request that is reset before it was answered counts as ten
(`web.http.transport.frame_budget`).  So a client may cancel all of its requests (`Limits.streams`) at a time."""

FRAME_RATE = 100
"""The same, each second: a client may cancel ten requests a second before their first byte, and any number later."""

HANDSHAKE_TIMEOUT = 15.0
"""Seconds for a TLS handshake."""

KEEP_ALIVE = 75.0
"""Seconds without a request until a connection is closed; so many, too, has a client for the head of one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of what all clients together may take of the server, and one of them at a time.

    The fields with an `Option` say themselves what they are.  Parsing a body is one call that holds everybody's tokens,
    some milliseconds for each MiB of text; a text of 128k tokens takes less than one MiB.

    Attributes:
        streams: requests at a time on one HTTP/2 connection.
        bodies_bytes: of all bodies that are being read or were not yet understood.
        write_bytes: of one write to a connection; what is longer is made and written in pieces, and others run in
            between.  As much as a TLS record or an HTTP/2 frame holds; of log-probabilities, one or two ms of work.
        least_read: bytes that a reader has to take within each stall timeout, of what waits for it.  In 30 s this is
            550 bytes a second: a line that slow is a tenth of a dial-up's; a reader that takes a byte now and then,
            to hold what waits for it, is below.
    """

    connections: Annotated[
        int,
        Option(
            "Open connections; one more is refused with a 503.", whole(1), unit="connections", name="max-connections"
        ),
    ] = 512
    body_bytes: Annotated[int, Option("Size of one request's body.", unit="bytes", name="max-body")] = 4 * MIB
    stall_timeout: Annotated[
        float,
        Option(
            "Within how long a client has to read 16 KiB, or all there is, of what waits for it, or it is cut off.",
            POSITIVE,
            unit="seconds",
        ),
    ] = 30.0
    streams: int = 100
    bodies_bytes: int = 64 * MIB
    write_bytes: int = 16 * KIB
    least_read: int = 16 * KIB
