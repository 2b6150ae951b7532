"""The page at the control address of a cluster, in a real browser: it shows each worker, and ends requests of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.live.browser.rules import broken_rules
from tests.live.browser.watching import Watched
from tests.live.cluster.clusters import Cluster, another_front_door, begun

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from tests.live.browser.chromium import Chromium

pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")

SAME = "11111111-2222-4333-8444-555555555555"


def card(page: Page, worker: str) -> Locator:
    """Return what the overview has of a worker."""
    return page.get_by_role("region", name=f"worker {worker}")


def opened(page: Page, cluster: Cluster) -> Watched:
    """The page, when each worker has said how it stands."""
    watched = Watched(page)
    page.goto(cluster.control.url)
    for worker in cluster.workers:
        card(page, worker).get_by_text("slot 1: ").wait_for()
    return watched


def test_one_of_two_requests_of_one_id_is_hung_up_on_at_the_worker_that_is_shown(
    chromium: Chromium, cluster: Cluster, discovery: Path
) -> None:
    first, second = cluster.workers.values()
    own_id = {"x-dynamo-request-id": SAME}

    def look(page: Page) -> tuple[str, list[str], list[str]]:
        watched = opened(page, cluster)
        streams = begun(cluster.url, first, own_id), begun(door, second, own_id)  # whose answers will not last for ever
        for worker in (first, second):
            card(page, worker.worker_id).get_by_text("of 2 slots").locator("..").get_by_text("1", exact=True).wait_for()
        page.get_by_role("button", name=f"Show worker {second.worker_id}").click()
        page.get_by_role("button", name=f"Hang up on {SAME}").click()
        expect(page.locator(".requests li").filter(has_text=SAME)).to_have_count(0)
        page.locator(".receipts li").filter(has_text=SAME).wait_for()
        assert SAME in first.requests()
        broken = broken_rules(page)
        page.get_by_role("button", name="All workers").click()
        card(page, second.worker_id).get_by_text("0", exact=True).first.wait_for()
        listed = page.locator(".receipts li").filter(has_text=SAME)
        expect(listed).to_have_count(1)
        broken += broken_rules(page)
        streams[1].read()
        streams[0].close()
        return listed.inner_text(), broken, list(watched.said)

    with another_front_door(discovery) as door:
        receipt, broken, said = chromium.visit(look)
    assert f"at worker {second.worker_id}" in " ".join(receipt.split())
    assert "Cancelled by hand" in receipt
    (true,) = second.receipts(SAME)
    assert true["reason"] == "operator"
    assert (broken, said) == ([], [])


def test_a_worker_that_dies_goes_and_the_one_in_its_place_comes(chromium: Chromium, cluster: Cluster) -> None:
    victim, lively = cluster.workers

    def look(page: Page) -> int:
        opened(page, cluster)
        page.get_by_role("button", name=f"Show worker {victim}").click()
        page.get_by_text("slot 0: ").wait_for()
        cluster.workers[victim].kill()
        expect(page.get_by_role("button", name=victim)).to_have_count(0)
        card(page, lively).get_by_text("slot 1: ").wait_for()  # all workers are shown, as the one that was is gone
        expect(page.locator(".workers > section")).to_have_count(2)
        cluster.wait_whole()
        (new,) = set(cluster.workers) - {lively}
        card(page, new).get_by_text("slot 1: ").wait_for()
        return page.locator(".choice button").count()

    assert chromium.visit(look) == 3
