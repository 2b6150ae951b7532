"""Records of a step, and of a generation: who is told what."""

from __future__ import annotations

from actors.core.events import StepBegins, StepPart
from actors.core.life import State
from tests.unit.web.observability.inspection.feed.viewers import ADMIN, ANN, BEN
from web.observability.inspection.feed.records import StepRecord, of_generation, of_server

PARTS = tuple(StepPart(name, 0, State.DECODE, slot, 5, (1, 2), 1) for slot, name in enumerate("ab"))


def test_what_happened_to_a_generation_is_for_its_owner_and_for_an_admin() -> None:
    record = of_generation("queued", 1.0, ("a", 0), "ann", prompt_tokens=3)
    told = {"type": "queued", "at": 1.0, "request_id": "a", "index": 0, "prompt_tokens": 3}
    assert [record.shown_to(key) for key in (None, ADMIN, ANN)] == [told] * 3
    assert record.shown_to(BEN) is None


def test_what_happened_to_the_server_is_for_everybody() -> None:
    assert of_server("device_back", 1.0).shown_to(BEN) == {"type": "device_back", "at": 1.0}


def test_a_step_is_for_everybody_but_whose_rows_are_others_is_not() -> None:
    record = StepRecord(StepBegins(7, drafting=False, parts=PARTS), 1.0, ("ann", "ben"))
    assert [part["request_id"] for part in record.shown_to(None)["parts"]] == ["a", "b"]
    mine, others = record.shown_to(ANN)["parts"]
    assert mine == {
        **{"request_id": "a", "index": 0, "slot": 0, "phase": "decode", "start": 5, "rows": 2, "drafts": 1},
    }
    assert others == mine | {"request_id": None, "index": None, "slot": 1}
    assert "token" not in str(record.shown_to(None))
