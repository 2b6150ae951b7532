"""SIGTERM to a front door and to a worker, in each state that might hold one up: each ends by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.cluster.proofs import ends

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.live.cluster.parts import Parts

pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")

GRACE = 0.3  # seconds
CUT_OFF = (ends.a_stalled_reader, ends.a_stream, ends.a_queued_request)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    with ends.running(tmp_path_factory.mktemp("parts"), GRACE) as parts:
        yield parts


@pytest.mark.parametrize("state", ends.DOOR_STATES, ids=lambda state: state.__name__)
def test_a_front_door_ends_and_names_what_it_cuts_off(parts: Parts, state: ends.State) -> None:
    end = ends.end_door(parts, state)
    assert end.status == 0, end.log
    if state is not ends.half_a_body:  # the signal may come before what there is of it was read
        assert (ends.CUT in end.log) == (state in CUT_OFF), end.log


@pytest.mark.parametrize("state", ends.WORKER_STATES, ids=lambda state: state.__name__)
def test_a_worker_ends(parts: Parts, state: ends.State) -> None:
    end = ends.end_worker(parts, state)
    assert end.status == 0, end.log


@pytest.mark.parametrize(("who", "line"), [("front door", ""), ("worker", ends.UNTOLD)])
def test_a_discovery_that_does_not_answer_keeps_nobody_from_ending(who: str, line: str) -> None:
    end = ends.end_without_discovery(who, GRACE)
    assert end.status == 0, end.log
    assert line in end.log
