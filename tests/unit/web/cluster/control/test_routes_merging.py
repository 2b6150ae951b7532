"""One answer out of several."""

from __future__ import annotations

from actors.groups.request_groups import LiveGroup
from web.cluster.control.routes import groups_of, holders, newest_first, oldest_first


def test_requests_are_in_the_order_in_which_they_came_anywhere() -> None:
    answers = {"b": [{"id": "1", "created": 2.0}], "a": [{"id": "2", "created": 1.0}, {"id": "3", "created": 3.0}]}
    assert [(one["id"], one["worker"]) for one in oldest_first(answers)] == [("2", "a"), ("1", "b"), ("3", "a")]


def test_receipts_are_the_newest_of_all() -> None:
    answers = {"a": [{"detected_at": 3.0}, {"detected_at": 1.0}], "b": [{"detected_at": 2.0}]}
    assert [one["detected_at"] for one in newest_first(answers, 2)] == [3.0, 2.0]


def test_a_group_has_its_requests_at_all_workers() -> None:
    answers = {
        "b": [{"name": "g", "owner": None, "requests": ["3"]}],
        "a": [{"name": "g", "owner": None, "requests": ["1", "2"]}, {"name": "h", "owner": None, "requests": ["4"]}],
    }
    assert groups_of(answers) == [
        LiveGroup("g", None, ("1", "2", "3")),
        LiveGroup("h", None, ("4",)),
    ]


def test_a_request_is_found_by_its_own_id_before_that_of_an_answer() -> None:
    own, inner = [{"id": "chatcmpl-1"}], [{"id": "1"}]
    assert holders({"a": own, "b": inner}, "chatcmpl-1") == [("a", "chatcmpl-1")]
    assert holders({"b": inner, "c": inner}, "chatcmpl-1") == [("b", "1"), ("c", "1")]
    assert holders({"a": own, "b": inner}, "1") == [("b", "1")]
    assert holders({"a": own}, "2") == []
