"""Reads a recording, and looks whether it is a picture that can be: spans nest, and none is left open."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """A span of a track; times are nanoseconds."""

    name: str
    begin: int
    end: int
    args: Json


def read(text: str) -> list[Json]:
    """The events of a file, which may lack its end."""
    events: list[Json] = json.loads(text if text.rstrip().endswith("]") else f"{text}]")
    return events


class Picture:
    """A recording's events by what they are.

    Attributes:
        spans: of each track, by the track's name, in the order in which they began.
        instants: the same of moments.
        waits: how long each generation was in the queue, in nanoseconds, by its name.
        ended: `waits` that were begun.
    """

    def __init__(self, events: Sequence[Json]) -> None:
        tracks = {
            (event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"
        }
        self.kinds = Counter(event["ph"] for event in events)
        self.spans: dict[str, list[Span]] = defaultdict(list)
        self.instants: dict[str, list[Json]] = defaultdict(list)
        begun: dict[str, int] = {}
        self.waits: dict[str, int] = {}
        for event in events:
            track, at = tracks.get((event["pid"], event["tid"]), ""), round(event.get("ts", 0) * 1e3)
            match event["ph"]:
                case "X":
                    self.spans[track].append(Span(event["name"], at, at + round(event["dur"] * 1e3), event["args"]))
                case "i":
                    self.instants[track].append(event)
                case "b":
                    assert event["id2"]["local"] not in begun
                    begun[event["id2"]["local"]] = at
                case "e":
                    name = event["id2"]["local"]
                    self.waits[name] = at - begun.pop(name)
        assert begun == {}, "a wait is left open"
        for spans in self.spans.values():
            spans.sort(key=lambda span: (span.begin, -span.end))

    def check(self) -> None:
        """Raise AssertionError if two spans of a track overlap and neither lies within the other."""
        assert set(self.kinds) <= set("MXibeC"), "nothing that has to be ended by another event"
        assert all(wait >= 0 for wait in self.waits.values())
        for track, spans in self.spans.items():
            around: list[Span] = []
            for span in spans:
                assert span.begin <= span.end
                while around and around[-1].end <= span.begin:
                    around.pop()
                assert not around or span.end <= around[-1].end, (track, around[-1], span)
                around.append(span)

    def cancels(self) -> list[Json]:
        """The moments of cancels, wherever they are."""
        return [event for events in self.instants.values() for event in events if event["name"].startswith("cancel: ")]
