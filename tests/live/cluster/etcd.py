"""A real etcd, on loopback and for one test."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.server import PATIENCE, wait_for
from web.cluster.settings import ADDRESSES, LOOPBACK
from web.http.listeners import bound_sockets

PEERS = "http://127.0.0.1:0"  # there are none


class Etcd:
    """A store that serves at `url`, in a process."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self._process = process

    @property
    def environment(self) -> dict[str, str]:
        """Return what Dynamo's processes need to find it, and to listen on loopback alone."""
        return {"ETCD_ENDPOINTS": self.url} | dict.fromkeys(ADDRESSES, LOOPBACK)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """While the scope lasts, it answers nobody."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def keys(self) -> list[str]:
        """All keys that there are."""
        first = base64.b64encode(b"\0").decode()  # from it to the end
        body = json.dumps({"key": first, "range_end": first, "keys_only": True}).encode()
        with urllib.request.urlopen(f"{self.url}/v3/kv/range", body, timeout=PATIENCE) as response:
            answer = json.load(response)
        return [base64.b64decode(item["key"]).decode() for item in answer.get("kvs", ())]


@contextmanager
def etcd(folder: Path) -> Iterator[Etcd]:
    """Run an etcd.  Skips the test where none is installed."""
    program = shutil.which("etcd")
    if program is None:
        pytest.skip("etcd is not installed")
    # Its own client would not find a port that it chose itself.
    with bound_sockets(LOOPBACK, 0) as (bound,):
        url = f"http://{LOOPBACK}:{bound.getsockname()[1]}"
        with _running(program, folder, url) as store:
            yield store


@contextmanager
def _running(program: str, folder: Path, url: str) -> Iterator[Etcd]:
    path = folder / "etcd.log"
    flags = [f"--listen-client-urls={url}", f"--advertise-client-urls={url}"]
    flags += [f"--listen-peer-urls={PEERS}", f"--initial-advertise-peer-urls={PEERS}"]
    with path.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [program, f"--data-dir={folder / 'etcd'}", f"--initial-cluster=default={PEERS}", *flags],
            stdout=log,
            stderr=log,
        )

    store = Etcd(url, process)

    def is_ready() -> bool:
        assert process.poll() is None, path.read_text(encoding="utf-8")
        try:
            return store.keys() == []
        except OSError:
            return False

    try:
        wait_for(is_ready, "etcd to answer")
        yield store
    finally:
        process.terminate()
        process.wait(PATIENCE)
