"""A cluster of three workers: a request goes where its KV is, and a session stays where it was."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING

import pytest

from runtime.kv.blocks import BLOCK_TOKENS
from tests.live.cluster.clusters import Cluster, chat
from tests.live.server import CHAT, PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.live.cluster.clusters import Worker
    from tests.live.server import Json

pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")

LONG = "def f(x):\n    return x\n" * 120


@pytest.fixture(scope="module")
def running_cluster() -> Iterator[Cluster]:
    with Cluster(workers=3) as cluster:
        yield cluster


def cached(answer: Json) -> int:
    """Return how many tokens of the prompt the worker had."""
    count: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return count


def whole_blocks(tokens: int) -> int:
    """Return how many of so many tokens are in complete blocks."""
    return tokens // BLOCK_TOKENS * BLOCK_TOKENS


def test_who_hung_up_in_the_prefill_finds_what_was_committed(cluster: Cluster) -> None:
    asked, receipt = cluster.hang_up_in_prompt(LONG, committed=3 * BLOCK_TOKENS)
    (worker,) = (worker for worker in cluster.living() if worker.receipts(receipt["request_id"]))
    cluster.wait_chosen(chat(asked, 1), worker.worker_id)
    status, answer = cluster.ask(chat(asked, 1))
    assert status == 200
    assert cached(answer) >= whole_blocks(receipt["kept_tokens"]) >= 3 * BLOCK_TOKENS


def test_what_a_worker_computed_for_its_own_clients_is_known_at_the_front_door(cluster: Cluster) -> None:
    workers = list(cluster.workers.values())
    bodies = [chat(f"# the {number}th\n" + LONG, 1) for number in range(3)]
    for worker, body in zip(workers, bodies, strict=True):
        assert worker.ask("POST", CHAT, body)[0] == 200
    for worker, body in zip(workers, bodies, strict=True):
        cluster.wait_chosen(body, worker.worker_id)
        status, answer = cluster.ask(body)
        assert status == 200
        assert cached(answer) >= whole_blocks(answer["usage"]["prompt_tokens"] - 1)


def test_a_session_stays_with_its_worker_while_that_lives(cluster: Cluster) -> None:
    for header in ("x-dynamo-session-id", "x-session-id"):
        served = [served_by(cluster, f"{number}: def f", {header: "a session"}) for number in range(5)]
        assert {worker.worker_id for worker in served} == {served[0].worker_id}
    served[0].kill()
    cluster.wait_whole()
    assert served_by(cluster, "6: def f", {header: "a session"}).worker_id != served[0].worker_id


def served_by(cluster: Cluster, content: str, headers: dict[str, str]) -> Worker:
    """Return who has a request with such headers, which is then given up."""
    connection = http.client.HTTPConnection(cluster.url.removeprefix("http://"), timeout=PATIENCE)
    body = json.dumps(chat(content, 2000, stream=True))
    connection.request("POST", CHAT, body, {"content-type": "application/json"} | headers)
    worker = cluster.serving()
    (request_id,) = worker.requests()
    connection.close()
    worker.wait_ended(request_id)
    return worker
