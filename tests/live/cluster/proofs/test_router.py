"""The router that asks each worker in turn, which the other would not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.cluster.clusters import chat
from tests.live.cluster.parts import Parts

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")

LONG = "def f(x):\n    return x\n" * 30


def test_in_turn_the_same_prompt_goes_to_another_worker(tmp_path: Path) -> None:
    with Parts(tmp_path, door=("--router", "round-robin")) as parts:
        for _ in range(4):
            assert parts.ask(chat(LONG, 1))[0] == 200
        counts = [worker.whole_log().count("200 length") for worker in parts.workers]
    assert counts == [2, 2]
