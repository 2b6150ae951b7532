"""What a worker has in a folder is written again when somebody has removed it, and nothing else is."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from web.cluster.liveness import LOOK_EVERY, Entries, keep_entries

OURS, ANOTHER = 7, 8
PUBLISHED, PUBLISHED_ELSEWHERE = 70, 80


def write(path: Path, **told: Any) -> Path:  # noqa: ANN401  # JSON
    """Write an entry."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told), encoding="utf-8")
    return path


def entries_of(folder: Path, worker: int, publisher: int) -> list[Path]:
    """Write what a worker has, as Dynamo does: its channel has the id of its source, and that one names the worker."""
    return [
        write(folder / f"event_channels/events/{publisher}", instance_id=publisher),
        write(
            folder / f"event_sources/events/{publisher}",
            publisher_id=publisher,
            metadata={"worker": {"worker_id": worker}},
        ),
        write(folder / f"instances/generate/{worker}", instance_id=worker),
        write(folder / f"mdc/generate/{worker}", instance_id=worker, card_json={"name": "model"}),
    ]


def test_all_that_a_worker_has_is_written_again_as_it_was(tmp_path: Path) -> None:
    paths = entries_of(tmp_path, OURS, PUBLISHED)
    entries = Entries(tmp_path, OURS)
    assert entries.renew() == []
    was = {path: path.read_bytes() for path in paths}
    for path in paths:
        path.unlink()
    assert entries.renew() == sorted(paths)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == was
    assert entries.renew() == []


def test_what_is_written_later_is_remembered_too(tmp_path: Path) -> None:
    channel, source, instance, card = entries_of(tmp_path, OURS, PUBLISHED)
    told = source.read_bytes()
    source.unlink()
    entries = Entries(tmp_path, OURS)
    entries.renew()
    source.write_bytes(told)
    entries.renew()
    channel.unlink()
    source.unlink()
    assert entries.renew() == [channel, source]
    assert instance.exists()
    assert card.exists()


def test_what_another_has_is_not(tmp_path: Path) -> None:
    entries_of(tmp_path, OURS, PUBLISHED)
    others = entries_of(tmp_path, ANOTHER, PUBLISHED_ELSEWHERE)
    entries = Entries(tmp_path, OURS)
    entries.renew()
    for path in others:
        path.unlink()
    assert entries.renew() == []
    assert not any(path.exists() for path in others)


def test_what_is_no_entry_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".tmp_0").write_text(json.dumps({"instance_id": OURS}), encoding="utf-8")
    (tmp_path / "notes").write_text("not JSON", encoding="utf-8")
    entries = Entries(tmp_path, OURS)
    entries.renew()
    for path in list(tmp_path.iterdir()):
        path.unlink()
    assert entries.renew() == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_away_is_an_error_and_its_entries_stay_remembered(tmp_path: Path) -> None:
    folder, aside = tmp_path / "discovery", tmp_path / "aside"
    paths = entries_of(folder, OURS, PUBLISHED)
    entries = Entries(folder, OURS)
    entries.renew()
    folder.rename(aside)
    with pytest.raises(OSError, match="no folder"):
        entries.renew()
    aside.rename(folder)
    paths[0].unlink()
    assert entries.renew() == [paths[0]]


class Member:
    """Says what each look comes to."""

    def __init__(self) -> None:
        self.found: list[list[Path] | OSError] = []

    async def renew(self, entries: Entries) -> list[Path]:
        """Take the next."""
        found = self.found.pop(0) if self.found else []
        if isinstance(found, OSError):
            raise found
        return found


async def test_the_log_says_what_was_forgotten_and_once_that_discovery_is_away(
    nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    member = Member()
    away = OSError("it is away")
    member.found = [[], [tmp_path], away, away, [], away]
    with caplog.at_level(logging.WARNING, "cede.web"):
        nursery.start_soon(keep_entries, member, Entries(tmp_path, OURS))
        await trio.sleep(10 * LOOK_EVERY)
    assert member.found == []
    said = [record.getMessage() for record in caplog.records]
    assert [line.split()[1] for line in said] == ["of", "cannot", "cannot"]
    nursery.cancel_scope.cancel()
