"""The control address over workers that only answer."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.unit.web.cluster.control.feed.workers import TellingWorkers
from web.cluster.control.questions import Question
from web.cluster.control.routes import control_app
from web.http.browser_policy import BrowserPolicy

A, B = "000000000000000a", "000000000000000b"


class Workers(TellingWorkers):
    """Two workers, and what was asked of them."""

    def __init__(self, answers: dict[Question, dict[str, Any]], silent: list[str] | None = None) -> None:
        super().__init__()
        self._answers = answers
        self._silent = silent or []
        self.questions: list[tuple[Question, str | None, dict[str, Any]]] = []

    async def ask(
        self,
        question: Question,
        worker: str | None = None,
        **about: Any,  # noqa: ANN401
    ) -> tuple[dict[str, Any], list[str]]:
        """Answer as they do."""
        await trio.lowlevel.checkpoint()
        self.questions.append((question, worker, about))
        answers = self._answers.get(question, {})
        return {name: answer for name, answer in answers.items() if worker in (None, name)}, self._silent

    @property
    def cancels(self) -> list[tuple[str | None, str]]:
        """Return which requests were to be ended, and where."""
        return [(worker, about["id"]) for question, worker, about in self.questions if question is Question.CANCEL]


async def ask(workers: Workers, method: str, path: str, **headers: str) -> tuple[int, Any]:
    client: Any = control_app(workers, trio.Event(), BrowserPolicy()).test_client()
    response = await client.open(path, method=method, headers=headers)
    return response.status_code, await response.get_json()


def live(**ids: str) -> dict[Question, dict[str, Any]]:
    """A request at each of these workers, which can be ended."""
    requests = {worker: [{"id": request_id, "created": 1.0}] for worker, request_id in ids.items()}
    return {Question.REQUESTS: requests, Question.CANCEL: dict.fromkeys(ids, True)}


async def test_lists_have_all_workers_and_name_those_that_are_silent() -> None:
    workers = Workers(live(a="1", b="2"), ["c"])
    status, answer = await ask(workers, "GET", "/v1/requests")
    assert (status, answer["unreachable"]) == (200, ["c"])
    assert [(one["id"], one["worker"]) for one in answer["data"]] == [("1", "a"), ("2", "b")]


async def test_what_is_asked_of_receipts_is_passed_on() -> None:
    workers = Workers({Question.RECEIPTS: {"a": []}})
    assert await ask(workers, "GET", "/v1/receipts?limit=3&request_id=chatcmpl-1&wait=2") == (
        200,
        {"data": [], "unreachable": []},
    )
    assert workers.questions == [(Question.RECEIPTS, None, {"limit": 3, "request_ids": ["chatcmpl-1", "1"], "wait": 2})]
    assert (await ask(workers, "GET", "/v1/receipts?wait=61"))[0] == 400
    await ask(workers, "GET", "/v1/receipts")
    assert workers.questions[-1][2] == {"limit": 100, "request_ids": None, "wait": 0}


async def test_a_cancel_is_sent_to_the_one_worker_that_has_the_request() -> None:
    workers = Workers(live(a="1", b="2"))
    status, answer = await ask(workers, "DELETE", "/v1/requests/chatcmpl-2")
    assert (status, answer) == (200, {"id": "chatcmpl-2", "cancelled": True, "worker": "b", "unreachable": []})
    assert workers.cancels == [("b", "2")]


async def test_a_cancel_names_those_who_may_have_another_request_of_the_id() -> None:
    _, answer = await ask(Workers(live(a="1"), ["c"]), "DELETE", "/v1/requests/1")
    assert (answer["worker"], answer["unreachable"]) == ("a", ["c"])


async def test_of_two_requests_of_one_id_neither_is_ended_until_it_is_said_which() -> None:
    workers = Workers(live(**{A: "1", B: "1"}))
    status, answer = await ask(workers, "DELETE", "/v1/requests/1")
    assert (status, answer["error"]["code"]) == (400, "ambiguous_request")
    assert workers.cancels == []
    assert (await ask(workers, "DELETE", f"/v1/requests/1?worker={B}"))[1]["worker"] == B
    assert workers.cancels == [(B, "1")]


@pytest.mark.parametrize("worker", ["x", "-1", "1" * 17])
async def test_what_is_no_workers_id_is_refused(worker: str) -> None:
    assert (await ask(Workers({}), "DELETE", f"/v1/requests/1?worker={worker}"))[0] == 400


async def test_nobody_is_found_only_where_all_have_answered() -> None:
    assert (await ask(Workers(live(a="1")), "DELETE", "/v1/requests/2"))[0] == 404
    status, answer = await ask(Workers(live(a="1"), ["c"]), "DELETE", "/v1/requests/2")
    assert status == 503
    assert "c" in answer["error"]["message"]


async def test_one_that_has_ended_meanwhile_is_not_found() -> None:
    answers = live(a="1") | {Question.CANCEL: {"a": False}}
    assert (await ask(Workers(answers), "DELETE", "/v1/requests/1"))[0] == 404


async def test_a_group_is_ended_everywhere() -> None:
    workers = Workers({Question.END_GROUP: {"b": ["2"], "a": ["1"]}})
    status, answer = await ask(workers, "DELETE", "/v1/groups/agent/1")
    assert (status, answer) == (200, {"group": "agent/1", "cancelled": ["1", "2"], "unreachable": []})
    assert workers.questions == [(Question.END_GROUP, None, {"name": "agent/1"})]


async def test_the_rest_is_labelled() -> None:
    answers: dict[Question, dict[str, Any]] = {
        Question.SLOTS: {"a": [{"id": 0}], "b": [{"id": 0}]},
        Question.STATISTICS: {"a": {"live_requests": 3}},
        Question.GROUPS: {"a": [{"name": "g", "owner": None, "requests": ["1"]}]},
    }
    workers = Workers(answers)
    assert (await ask(workers, "GET", "/slots"))[1]["slots"] == [{"id": 0, "worker": "a"}, {"id": 0, "worker": "b"}]
    assert (await ask(workers, "GET", "/v1/statistics"))[1]["data"] == [{"worker": "a", "live_requests": 3}]
    assert (await ask(workers, "GET", "/v1/groups"))[1]["data"][0]["requests"] == ["1"]


async def test_a_page_of_another_origin_may_end_nothing() -> None:
    workers = Workers(live(a="1"))
    assert (await ask(workers, "DELETE", "/v1/requests/1", Origin="http://elsewhere.example"))[0] == 403
    assert workers.questions == []
