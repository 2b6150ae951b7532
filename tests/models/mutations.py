"""Known-good files made bad: some bytes changed anywhere, or one value of what they say.

Every function takes a random generator, so that a seed makes the same file on every run.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

NUMBERS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, -(2**63), 1e308, float("nan"), "", "\0", "a" * 300, "\ufffd"),
    *([], {}, [[]], ["a", 1], {"a": 1}, [[[[[[[[]]]]]]]]),
)


def changed_bytes(data: bytes, random: random.Random, span: int) -> bytes:
    """Change one to five places among the first `span` bytes: bits, bytes, lengths, pieces left out or repeated."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(min(span, len(changed)) or 1)
        match random.randrange(6):
            case 0:
                changed[at : at + 1] = bytes([changed[at] ^ 1 << random.randrange(8)]) if changed else b""
            case 1:
                changed[at : at + 1] = bytes([random.randrange(256)])
            case 2:
                size = random.choice((4, 8))
                changed[at : at + size] = random.choice(NUMBERS).to_bytes(8, "little")[:size]
            case 3:
                del changed[at : at + random.randrange(1, 40)]
            case 4:
                changed[at:at] = changed[at : at + random.randrange(1, 200)]
            case _:
                del changed[random.randrange(len(changed) or 1) :]
    return bytes(changed)


def changed_json(text: str, random: random.Random) -> str:
    """Change one to three values of a JSON text: to any other, to one from elsewhere, left out, or repeated."""
    value = json.loads(text)
    for _ in range(random.choice((1, 1, 2, 3))):
        places = [place for place in _places(value)]
        if not places:
            break
        holder, key = random.choice(places)
        match random.randrange(4):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 2:
                other, place = random.choice(places)
                holder[key] = copy.deepcopy(other[place])
            case _:
                holder[key] = copy.deepcopy(random.choice(VALUES))
    return json.dumps(value)


def _places(value: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401
    """Return every object or list with every key or index of it; of long ones some, so that the rest has its chance."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        found += [(value, key) for key in list(value)[:40]]
    elif isinstance(value, list):
        found += [(value, index) for index in range(min(len(value), 40))]
    for holder, key in list(found):
        found += _places(holder[key])
    return found
