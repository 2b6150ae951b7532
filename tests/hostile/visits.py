"""What no client does to a response that is stored, or runs in the background: each visit is fixed by one integer."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.hostile.bodies import OPERATIONS
from tests.hostile.values import NUMBERS, STRINGS, Json

if TYPE_CHECKING:
    from random import Random

    from web.openapi.operations import Operation

RESPONSES = "/v1/responses"
OF_ONE = {
    (operation.method, operation.path): operation
    for operation in OPERATIONS
    if operation.path.startswith(f"{RESPONSES}/{{")
}
PARAMETERS = ("stream", "starting_after", "limit", "order", "after", "include", "before", "\0")
VALUES = (
    "true",
    "false",
    "asc",
    "desc",
    "0",
    "1",
    "100",
    "101",
    "-1",
    "-2",
    "9999999999",
    "1.5",
    "x",
    "",
    "%",
    "\u0661",
)


@dataclass(frozen=True, slots=True)
class Followup:
    """A request for the response that the visit has made.

    Attributes:
        operation: that it is for.
        suffix: behind the response's id: the rest of the path, and the query.
    """

    operation: Operation
    suffix: str

    def target(self, response_id: str) -> str:
        """Return the request's target."""
        return f"{RESPONSES}/{response_id}{self.suffix}"


@dataclass(frozen=True, slots=True)
class HostileVisit:
    """A response, and what is asked for about it.

    Attributes:
        what: by which it can be drawn again.
        body: of the response, in order.
        followups: to be sent one after the other; the last deletes the response, or it would be kept for minutes.
    """

    what: str
    body: Json
    followups: tuple[Followup, ...]

    def __str__(self) -> str:
        """Say what it is."""
        asked = [(each.operation.method, each.suffix) for each in self.followups]
        return f"{self.what!r}: {json.dumps(self.body)}, {asked}"


def draw_visit(number: int) -> HostileVisit:
    """Return the visit of that number; the same in every process."""
    dice = random.Random(f"hostile visit/{number}")
    body: Json = {"input": dice.choice(["hi", [{"role": "user", "content": "hi"}]]), "max_output_tokens": 8}
    background = dice.random() < 0.6
    body |= {"background": background, "store": background or dice.random() < 0.8}
    followups = [_followup(dice) for _ in range(dice.randint(1, 6))]
    return HostileVisit(
        f"visit {number}", body, (*followups, Followup(OF_ONE["delete", f"{RESPONSES}/{{response_id}}"], ""))
    )


def _followup(dice: Random) -> Followup:
    operation = dice.choice(list(OF_ONE.values()))
    rest = operation.path.partition("}")[2]
    pairs = [(dice.choice(PARAMETERS), _value(dice)) for _ in range(dice.choice([0, 1, 1, 2, 3]))]
    query = "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)
    return Followup(operation, rest + (f"?{query}" if query else ""))


def _value(dice: Random) -> str:
    return dice.choice([*VALUES, *VALUES, *STRINGS, *map(str, NUMBERS[:17]), "9" * 5000])
