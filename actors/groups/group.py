"""Names of groups: paths whose parts are divided by slashes, so that a group can have groups in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """A group that has live requests.

    Attributes:
        owner: the name of the API key whose it is; None where there are no keys.
        requests: ids of the live requests in it, those in groups below it not among them; the oldest first.
    """

    name: str
    owner: str | None
    requests: tuple[str, ...]


def is_within(name: str | None, group: str) -> bool:
    """Return whether a name is that of a group, or of one somewhere in it; None is the name of no group.

    >>> is_within("agent/search", "agent"), is_within("agents", "agent")
    (True, False)
    """
    return name is not None and (name == group or name.startswith(f"{group}/"))
