"""Records of a benchmark, written by hand."""

from __future__ import annotations

from dataclasses import replace

from bench.client.harness.figures import (
    Better,
    Figure,
    Record,
    Sample,
)

RATE = Figure("decode", 10.0, "tokens/s", Better.HIGHER, "1 stream", x=1)
WAIT = Figure("wait", 2.0, "s", Better.LOWER)


def record(*samples: Sample, targets: tuple[str, ...] = ("ours", "theirs")) -> Record:
    """Return a record with these samples."""
    return Record(
        scenario="trial",
        about="What was tried.",
        date="2026-01-02",
        parameters={"rounds": 2, "seed": 1},
        machine={"cores": "2"},
        targets={name: f"all about {name}" for name in targets},
        samples=list(samples),
    )


def rounds(figure: Figure, **values: list[float]) -> list[Sample]:
    """Return one sample for each value, in rounds from 0."""
    return [
        Sample(target, number, replace(figure, value=value))
        for target, listed in values.items()
        for number, value in enumerate(listed)
    ]
