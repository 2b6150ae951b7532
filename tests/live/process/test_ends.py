"""Whatever a server is at, whoever does not read and whichever disk does not answer: SIGTERM ends it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.live.process.ends import STATES, at


@pytest.mark.parametrize("name", STATES)
def test_it_ends_in_its_grace_whatever_it_is_at(name: str, tmp_path: Path) -> None:
    state = STATES[name]
    with at(name, tmp_path, 0.2) as server:
        if not state.is_told:
            server.signal(signal.SIGTERM)
        assert server.wait_exit() == state.status
        assert state.says in server.log()
        assert "Traceback" not in server.log()
