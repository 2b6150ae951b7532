"""The file of keys: what may stand in it, and how it is changed."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from werkzeug.datastructures import Headers

from web.process.access.api_keys import ApiKey, KeyLimits, KeyRing, digest_of, plain_key
from web.process.access.key_file import ApiKeyError, KeyFile, read_keys

NONE = KeyLimits()
DIGEST = digest_of(b"sk-1").hex()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def found(key: str, file: Path) -> ApiKey:
    return KeyRing(read_keys([], file)).find(Headers({"x-api-key": key}))


def test_a_key_that_was_added_is_served_under_its_name_and_within_its_limits(path: Path) -> None:
    limits = KeyLimits(4, 0.25, 60_000)
    alice = KeyFile(path).add("alice", limits=limits)
    root = KeyFile(path).add("root", limits=NONE, admin=True)
    assert (found(alice, path).name, found(alice, path).limits, found(alice, path).admin) == ("alice", limits, False)
    assert (found(root, path).name, found(root, path).limits, found(root, path).admin) == ("root", NONE, True)


def test_the_file_has_no_key_and_is_its_owners_alone(path: Path) -> None:
    key = KeyFile(path).add("alice", limits=NONE)
    assert key not in path.read_text()
    assert len(key) >= 43  # 32 bytes of randomness
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["keys"]


def test_keys_as_they_are_and_empty_lines_stay_as_they_are(path: Path) -> None:
    path.write_bytes("sk-1\n\n  sk-füle \n".encode())
    KeyFile(path).add("alice", limits=NONE)
    assert path.read_bytes().startswith("sk-1\n\n  sk-füle \n{".encode())
    KeyFile(path).remove("alice")
    assert path.read_bytes() == "sk-1\n\n  sk-füle \n".encode()
    assert read_keys([], path) == [plain_key(b"sk-1"), plain_key("sk-füle".encode())]
    assert KeyFile(path).remove(plain_key(b"sk-1").name) == 1


def test_a_key_given_twice_is_one_key(path: Path) -> None:
    path.write_text("sk-1\nsk-1\n")
    assert read_keys(["sk-1"], path) == [plain_key(b"sk-1")]


def test_no_key_where_one_is_expected_is_refused(path: Path) -> None:
    """Rather than serving everybody."""
    path.write_text(" \n\n")
    with pytest.raises(ApiKeyError, match="there is no key in it"):
        read_keys([], path)
    assert read_keys([], path, may_be_empty=True) == []
    with pytest.raises(ApiKeyError, match="the key is empty"):
        read_keys(["sk-flag", " "], None)


@pytest.mark.parametrize(
    ("mode", "warned"), [(0o600, False), (0o640, False), (0o660, True), (0o644, True), (0o602, True)]
)
def test_a_file_that_others_can_read_or_change_is_warned_of(
    path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    key = KeyFile(path).add("alice", limits=NONE)
    path.chmod(mode)
    assert found(key, path).name == "alice", "it is served nevertheless"
    assert (f"its mode is {mode:o}" in caplog.text) is warned


def test_a_name_is_taken_once(path: Path) -> None:
    KeyFile(path).add("alice", limits=NONE)
    before = path.read_bytes()
    with pytest.raises(ApiKeyError, match="a key named 'alice' already"):
        KeyFile(path).add("alice", limits=NONE)
    with pytest.raises(ApiKeyError, match="no key named 'bob'"):
        KeyFile(path).remove("bob")
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["", "-a", "a b", "ä", "a\n", "x" * 65, 'a"'])
def test_a_name_that_is_none(path: Path, name: str) -> None:
    with pytest.raises(ApiKeyError, match="a key's name has"):
        KeyFile(path).add(name, limits=NONE)
    assert not path.exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sha256": None}, "sha256 should be"),
        ({"sha256": "AB" * 32}, "sha256 should be"),
        ({"sha256": "ab"}, "sha256 should be"),
        ({"name": None}, "a key's name"),
        ({"name": 5}, "a key's name"),
        ({"admin": 1}, "admin should be"),
        ({"requests": 0}, "requests should be"),
        ({"requests": True}, "requests should be"),
        ({"requests": 1.0}, "requests should be"),
        ({"tokens_per_minute": -5}, "tokens_per_minute should be"),
        ({"queue_share": 1.5}, "queue_share should be"),
        ({"queue_share": float("nan")}, "queue_share should be"),
        ({"queue_share": "1"}, "queue_share should be"),
        ({"weight": 0}, "weight should be"),
        ({"weight": "2"}, "weight should be"),
        ({"request": 4}, "no field 'request'"),
    ],
)
def test_a_record_that_is_wrong_is_named_by_its_line(path: Path, fields: dict[str, object], message: str) -> None:
    path.write_text("sk-0\n" + json.dumps({"name": "alice", "sha256": DIGEST} | fields))
    with pytest.raises(ApiKeyError, match=f"keys, line 2: .*{message}"):
        read_keys([], path)


def test_a_line_that_only_begins_like_a_record(path: Path) -> None:
    path.write_text("{sk-1\n")
    with pytest.raises(ApiKeyError, match="line 1: it begins with a brace"):
        read_keys([], path)


def test_one_key_under_two_names_and_two_keys_of_one_name_are_refused(path: Path) -> None:
    path.write_text(f'sk-1\n{{"name": "alice", "sha256": "{DIGEST}"}}\n')
    with pytest.raises(ApiKeyError, match="under another name"):
        read_keys([], path)
    path.write_text("".join(f'{{"name": "alice", "sha256": "{digest_of(key).hex()}"}}\n' for key in (b"a", b"b")))
    with pytest.raises(ApiKeyError, match="two keys named 'alice'"):
        read_keys([], path)


def test_who_changes_it_at_the_same_time_loses_nothing(path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: KeyFile(path).add(f"n{number}", limits=NONE), range(24)))
    assert {key.name for key in KeyFile(path).keys()} == {f"n{number}" for number in range(24)}


def test_a_link_to_the_file_stays_one(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    KeyFile(tmp_path / "link").add("alice", limits=NONE)
    assert (tmp_path / "link").is_symlink()
    assert [key.name for key in KeyFile(path).keys()] == ["alice"]


def test_a_change_that_cannot_be_written_leaves_all_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KeyFile(path).add("alice", limits=NONE)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            KeyFile(path).add("bob", limits=NONE)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["keys"]
