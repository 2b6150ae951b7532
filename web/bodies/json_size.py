"""Counts what a JSON text holds before it is parsed.

The parser is one call that holds the interpreter to its end, and with it the tokens of all requests: a second and more
for the millions of small values that fit into a few megabytes.  The count is made in slices, between which the
interpreter can switch to other threads.
"""

from __future__ import annotations

import re

from runtime.common.units import KIB
from runtime.errors import RequestError
from web.process.limits import MAX_ARRAYS, MAX_OBJECTS, MAX_VALUES

SLICE = 256 * KIB
"""Bytes that one call looks at, which takes a millisecond or two."""

_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


def check_json_size(raw: bytes, context_length: int) -> None:
    """Check that the body `raw` holds no more values than a request can need.

    A text that is no valid JSON may pass; the parser refuses it.

    Args:
        raw: the body.
        context_length: tokens of the model's context; a body may hold so many numbers beside the other values.

    Raises:
        RequestError: there are too many arrays, too many strings and objects, or too many values.
    """
    if len(raw) <= MAX_ARRAYS:
        return
    max_values = MAX_VALUES + context_length
    arrays = objects = values = position = 0
    while position < len(raw):
        end = _until(raw, b'"', position)
        arrays += raw.count(b"[", position, end)
        objects += raw.count(b"{", position, end)
        values += raw.count(b",", position, end)
        if end < len(raw) and raw[end] == ord('"'):
            objects += 1
            end = _string_end(raw, end + 1)
        position = end
        if arrays > MAX_ARRAYS:
            raise RequestError(f"The body has more than {MAX_ARRAYS} arrays.")
        if objects > MAX_OBJECTS:
            raise RequestError(f"The body has more than {MAX_OBJECTS} strings and objects.")
        if values > max_values:
            raise RequestError(f"The body has more than {max_values} values.")


def _until(raw: bytes, wanted: bytes, start: int) -> int:
    """Return where `wanted` is found next, or the end of the slice that begins at `start`."""
    end = min(start + SLICE, len(raw))
    found = raw.find(wanted, start, end)
    return end if found < 0 else found


def _string_end(raw: bytes, start: int) -> int:
    """Return the place behind the closing quote of the string whose text begins at `start`."""
    while start < len(raw):
        found = _IN_STRING.match(raw, start, start + SLICE)
        assert found is not None  # the pattern also matches nothing
        end = found.end()
        if raw[end : end + 1] == b'"':
            return end + 1
        # A backslash at the end of the slice is looked at again, together with what it escapes.
        start = end if end > start else end + 2
    return start
