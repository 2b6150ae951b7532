"""The newest records, and how many are gone."""

from __future__ import annotations

from web.observability.inspection.feed.records import AnyRecord, Record, Ring


def numbers(records: list[AnyRecord]) -> list[int]:
    return [record.value["n"] for record in records if isinstance(record, Record)]


def test_what_was_not_read_is_there_until_it_gives_way() -> None:
    ring = Ring(3)
    assert ring.read(0, 9) == ([], 0)
    for n in range(3):
        ring.append(Record({"n": n}))
    assert [numbers(ring.read(position, 9)[0]) for position in range(4)] == [[0, 1, 2], [1, 2], [2], []]
    for n in range(3, 5):
        ring.append(Record({"n": n}))
    records, lost = ring.read(1, 9)
    assert (numbers(records), lost, ring.end) == ([2, 3, 4], 1, 5)


def test_no_more_is_read_than_asked_for() -> None:
    ring = Ring(10)
    for n in range(6):
        ring.append(Record({"n": n}))
    assert numbers(ring.read(1, 2)[0]) == [1, 2]
