"""Groups and who is in them, without an engine."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from actors.control import NO_CONTROL, Control
from actors.core.hold import QueuePlace
from actors.core.receipts import CancelReason
from actors.groups.request_groups import REMEMBERED, RequestGroups, is_within
from runtime.errors import EndedByAnotherRequest, RequestError


def test_names_of_groups_are_paths() -> None:
    assert is_within("a", "a")
    assert is_within("a/b/c", "a/b")
    assert not is_within("a", "a/b")
    assert not is_within("ab", "a")
    assert not is_within(None, "a")


@pytest.mark.parametrize("reason", [CancelReason.GROUP, CancelReason.SIBLING_WON, CancelReason.SUPERSEDED])
def test_what_was_ended_on_its_way_is_not_admitted(reason: CancelReason) -> None:
    groups = RequestGroups()
    with groups.joined("a", None, Control(group="g")) as member:
        member.end(reason)
        with pytest.raises(EndedByAnotherRequest) as refused:
            member.check()
        assert (refused.value.status, refused.value.code) == (409, reason.value)
    with pytest.raises(RequestError, match="'a'"), groups.joined("b", None, Control(after="a")):
        pass


def test_the_first_reason_counts() -> None:
    groups, told = RequestGroups(), list[CancelReason]()
    with groups.joined("a", None, Control(group="g", supersede="s")) as member:
        member.admit([QueuePlace()], told.append)
        with groups.joined("b", None, Control(supersede="s")):
            assert groups.end_group(None, "g") == ["a"]
    assert told == [CancelReason.SUPERSEDED]


def test_a_successor_takes_the_places_that_are_still_taken() -> None:
    groups, places = RequestGroups(), [QueuePlace(), QueuePlace(is_left=True)]
    with ExitStack() as stack:
        first = stack.enter_context(groups.joined("a", None, Control(supersede="s")))
        first.admit(places, lambda reason: None)
        second = stack.enter_context(groups.joined("b", None, Control(supersede="s")))
        third = stack.enter_context(groups.joined("c", None, Control(supersede="s")))
        assert second.succeeds() == third.succeeds() == (places[0],)
        places[0].is_left = True
        assert third.succeeds() == ()


def test_of_those_that_have_ended_the_newest_are_remembered() -> None:
    groups = RequestGroups()
    for number in range(REMEMBERED + 1):
        with groups.joined(f"r{number}", None, NO_CONTROL) as member:
            member.admit([QueuePlace()], lambda reason: None)
    with groups.joined("x", None, Control(after="r1")) as member:
        assert member.after() == ()
    with pytest.raises(RequestError), groups.joined("x", None, Control(after="r0")):
        pass


def test_a_successor_elsewhere_ends_all_of_the_name_but_itself() -> None:
    groups = RequestGroups()
    with ExitStack() as stack:
        members = [
            stack.enter_context(groups.joined(name, owner, Control(supersede=supersede)))
            for name, owner, supersede in (("a", None, "s"), ("b", None, "t"), ("c", "somebody", "s"))
        ]
        groups.end_superseded(None, "s", by="a")
        assert [member.ended for member in members] == [None, None, None]
        groups.end_superseded(None, "s", by="z")
        assert [member.ended for member in members] == [CancelReason.SUPERSEDED, None, None]
