"""Visits as no client makes them, to what is stored, runs, or can be looked at: each is fixed by one integer.

A visit makes something that is stored, and asks about it; between that it asks for what has no body at all, such as
receipts, the feed or the page.  Query strings and headers are of the operation's own parameters, and of others.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from random import Random
from urllib.parse import quote

from tests.fakes.operations import OPERATIONS
from tests.hostile.bodies import draw_body_of
from tests.hostile.values import NUMBERS, STRINGS, Json, written
from web.openapi.operations import Operation

RESPONSES, CHATS, CONVERSATIONS = "/v1/responses", "/v1/chat/completions", "/v1/conversations"
KEPT = (RESPONSES, CHATS, CONVERSATIONS)
"""Where things are made that stay: `{id}` below each of them is one."""

MAKES = {operation.path: operation for operation in OPERATIONS if operation.method == "post" and operation.path in KEPT}
OF_ONE = {
    path: tuple(operation for operation in OPERATIONS if operation.path.startswith(f"{path}/{{")) for path in KEPT
}
BARE = tuple(operation for operation in OPERATIONS if operation.body is None)
"""All that takes no body: what is looked at, listed and deleted."""

WEIGHTS = [1 + 3 * len(operation.parameters) for operation in BARE]

THE_ID = "<id>"
"""Stands, in a target, for the id of what the visit has made: no quoted text has such brackets."""

NAMES = (THE_ID, THE_ID, "x", "%00", "%ff", "x" * 3000, "%F0%9F%98%80", "app.js")
PARAMETERS = ("stream", "starting_after", "limit", "order", "after", "include", "before", "\0")
VALUES = (
    *("true", "false", "asc", "desc", "0", "1", "100", "101", "-1", "-2", "60", "61", "9999999999", "1.5", "x", ""),
    *("%", "\u0661"),
)
HEADERS = (
    *(("accept", "text/html"), ("accept", "text/html;q=x, */*;q=9"), ("accept", ";;,"), ("accept-encoding", "gzip")),
    *(("last-event-id", "-1"), ("range", "bytes=5-1"), ("if-match", "*"), ("if-modified-since", "never")),
)
TEXTS = ("*", '"x"', 'W/"x", "', "2023-06-01", "", "x" * 3000)
"""Of the headers that operations declare."""

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Followup:
    """A request, perhaps for what the visit has made.

    Attributes:
        operation: that it is for.
        template: the request's target, with `THE_ID` in it.
        headers: beside the usual ones.
        body: empty for none.
    """

    operation: Operation
    template: str
    headers: Headers = ()
    body: bytes = b""

    def target(self, id: str) -> str:
        """Return the request's target.

        Args:
            id: of what the visit has made.
        """
        return self.template.replace(THE_ID, id)


@dataclass(frozen=True, slots=True)
class HostileVisit:
    """Something that is made and stored, and what is asked then.

    Attributes:
        what: by which it can be drawn again.
        makes: the operation that makes it.
        body: of that, in order.
        followups: to be sent one after the other; the last deletes what was made, or it would be kept for minutes.
    """

    what: str
    makes: Operation
    body: Json
    followups: tuple[Followup, ...]

    def __str__(self) -> str:
        """Say what it is."""
        asked = [(each.operation.method, each.template[:200], each.headers, each.body[:200]) for each in self.followups]
        return f"{self.what!r}: {self.makes.path}, {self.body}, {asked}"


def draw_visit(number: int) -> HostileVisit:
    """Return the visit of that number; the same in every process."""
    dice = random.Random(f"hostile visit/{number}")
    (path,) = dice.choices(KEPT, (4, 1, 1))
    others = [
        _followup(dice, dice.choice(OF_ONE[path]) if dice.random() < 0.5 else dice.choices(BARE, WEIGHTS)[0])
        for _ in range(dice.randint(1, 6))
    ]
    delete = next(operation for operation in OF_ONE[path] if operation.method == "delete")
    last = Followup(delete, f"{path}/{THE_ID}")
    return HostileVisit(f"visit {number}", MAKES[path], _made(dice, path), (*others, last))


def _made(dice: Random, path: str) -> Json:
    said = [{"role": "user", "content": "hi"}]
    if path == CHATS:
        return {"messages": said, "max_tokens": 4, "store": True, "metadata": {"a": "b"}}
    if path == CONVERSATIONS:
        return {"items": dice.choice([said, [], said * 5]), "metadata": {"a": "b"}}
    background = dice.random() < 0.6
    body: Json = {"input": dice.choice(["hi", said]), "max_output_tokens": 8, "background": background}
    return body | {"store": background or dice.random() < 0.8}


def _followup(dice: Random, operation: Operation) -> Followup:
    """Return a request whose answer comes to an end."""
    declared = {each.name: each.schema for each in operation.parameters if each.place == "query"}
    names = dice.choices([*list(declared) * 12, *PARAMETERS], k=dice.choice([0, 1, 2, 3]))
    pairs = [f"{quote(name)}={_value(dice, declared.get(name, {}))}" for name in names]
    if operation.endless:
        pairs.insert(0, dice.choice(["follow=false", "follow=0", "follow="]))
    path = re.sub(r"\{\w+\}", lambda _: dice.choice(NAMES), operation.path)
    body = b"" if operation.body is None else written(draw_body_of(dice, operation))
    return Followup(operation, path + ("?" + "&".join(pairs) if pairs else ""), _headers(dice, operation), body)


def _headers(dice: Random, operation: Operation) -> Headers:
    declared = [(each.name, dice.choice(TEXTS)) for each in operation.parameters if each.place == "header"]
    return (*(each for each in declared if dice.random() < 0.7), *dice.sample(HEADERS, k=dice.choice([0, 0, 1, 2])))


def _value(dice: Random, schema: Json) -> str:
    """Return one that fits as often as not."""
    fitting: dict[object, tuple[str, ...]] = {"integer": ("0", "1", "8", "60"), "boolean": ("true", "false")}
    if dice.random() < 0.5:
        return dice.choice(fitting.get(schema.get("type"), (THE_ID,)))
    return quote(dice.choice([*VALUES, *VALUES, *STRINGS, *map(str, NUMBERS[:17]), "9" * 5000]))
