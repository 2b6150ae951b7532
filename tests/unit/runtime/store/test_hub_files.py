"""Downloads by the hub's own client in a process of its own, from a hub on the loopback address."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fakes.hub import FakeHub
from tests.live.server import wait_for

ROOT = Path(__file__).parents[4]
WEIGHTS = bytes(range(256)) * (48 << 10)
STOP, KEPT = 11 << 20, 10 << 20  # bytes: where the hub stops, and what the client, in pieces of ten MiB, writes of it
FILES = {"config.json": b"{}", "model.safetensors": WEIGHTS, "README.md": b"not wanted"}


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub(FILES) as opened:
        yield opened


def start(hub: FakeHub, cache: Path, name: str = "org/name") -> subprocess.Popen[str]:
    """Start a pull."""
    settings = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(cache), "HF_HOME": str(cache / "home"), "NO_PROXY": "*"}
    settings |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DOWNLOAD_TIMEOUT": "600"}
    command = [sys.executable, "-m", "web", "pull", name]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | settings, stdout=pipe, stderr=pipe, text=True)


def pull(hub: FakeHub, cache: Path, name: str = "org/name") -> tuple[int, str, str]:
    """Pull to the end: the status, the standard output, the standard error."""
    child = start(hub, cache, name)
    out, err = child.communicate()
    return child.returncode, out, err


def written(cache: Path) -> int:
    """Bytes of what has come of a file."""
    with suppress(FileNotFoundError):  # a folder of the client's own came and went meanwhile
        return max((path.stat().st_size for path in cache.rglob("*.incomplete")), default=0)
    return 0


def whole(cache: Path) -> list[Path]:
    """The files in the cache that have been given their names."""
    return list((cache / "models--org--name" / "snapshots").rglob("*.safetensors"))


def test_a_repository_is_pulled_and_the_path_said(hub: FakeHub, tmp_path: Path) -> None:
    status, out, err = pull(hub, tmp_path)
    assert status == 0, err
    assert err.splitlines()[0] == f"downloading org/name from {hub.url}: 2 files, 12 MiB"
    assert sorted(path.name for path in Path(out.strip()).iterdir()) == ["config.json", "model.safetensors"]
    assert (Path(out.strip()) / "model.safetensors").read_bytes() == WEIGHTS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_pull_that_was_stopped_goes_on_where_it_was(hub: FakeHub, tmp_path: Path, number: signal.Signals) -> None:
    hub.served.stop_after = STOP
    child = start(hub, tmp_path)
    wait_for(lambda: written(tmp_path) >= KEPT, "what the client has written")
    child.send_signal(number)
    child.communicate()
    assert child.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert whole(tmp_path) == []
    hub.served.stop_after = None
    status, out, err = pull(hub, tmp_path)
    assert status == 0, err
    assert [wanted for name, wanted in hub.served.ranges if name == "model.safetensors"] == [None, f"bytes={KEPT}-"]
    assert (Path(out.strip()) / "model.safetensors").read_bytes() == WEIGHTS


def test_a_file_of_another_content_is_refused_and_removed(hub: FakeHub, tmp_path: Path) -> None:
    hub.served.sent = {"model.safetensors": bytes(len(WEIGHTS))}
    status, out, err = pull(hub, tmp_path)
    assert (status, out) == (1, "")
    assert "model.safetensors: its SHA-256 is" in err
    assert whole(tmp_path) == []


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "no such repository, or it is private"),
        (403, "must be asked for on its page"),
        (404, "no such repository"),
    ],
)
def test_a_hub_that_refuses_is_understood(hub: FakeHub, tmp_path: Path, status: int, reason: str) -> None:
    hub.served.status = status
    code, out, err = pull(hub, tmp_path)
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith("Error: org/name: not loaded from the hub: ")
    assert reason in line


def test_what_had_come_of_another_content_is_not_gone_on_with_for_ever(hub: FakeHub, tmp_path: Path) -> None:
    blobs = tmp_path / "models--org--name" / "blobs"
    blobs.mkdir(parents=True)
    partial = blobs / f"{hashlib.sha256(WEIGHTS).hexdigest()}.incomplete"
    partial.write_bytes(b"of something else")
    assert pull(hub, tmp_path)[0] == 1
    assert not partial.exists()
    assert pull(hub, tmp_path)[0] == 0


def test_a_repository_in_the_cache_is_served_without_the_hub(hub: FakeHub, tmp_path: Path) -> None:
    _, first, _ = pull(hub, tmp_path)
    hub.served.status = 502
    status, out, err = pull(hub, tmp_path)
    assert (status, out) == (0, first), err
