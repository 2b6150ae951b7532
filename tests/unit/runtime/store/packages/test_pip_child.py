"""pip ends with its parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[5]

PARENT = """
import subprocess, sys
from runtime.store.packages import pip_child
child = subprocess.Popen([sys.executable, "-P", pip_child.__file__, "download", "a"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
child.wait()
"""


def test_pip_ends_when_its_parent_is_killed() -> None:
    """Pip waits for an index that takes connections and never answers; its standard output ends when it does."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = {"PIP_INDEX_URL": f"http://127.0.0.1:{silent.getsockname()[1]}/", "PIP_CONFIG_FILE": "/dev/null"}
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | settings | {"PIP_FIND_LINKS": "", "PIP_TIMEOUT": "600"},
            cwd=ROOT,
        )
        with parent:
            assert parent.stdout is not None
            assert int(parent.stdout.readline()) != parent.pid
            connection, _ = silent.accept()  # pip has begun
            with connection:
                parent.send_signal(signal.SIGKILL)
                parent.stdout.read()  # returns when nobody holds the other end
