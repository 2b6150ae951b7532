"""In discovery, and out of it."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import trio
import trio.testing

from tests.live.server import PATIENCE
from web.cluster.guest import run_as_guest
from web.cluster.liveness import Entries
from web.cluster.membership import Membership

WORKER = 7


class Endpoint:
    """Of a worker that is in discovery; notes what is asked of it."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def register_endpoint_instance(self) -> None:
        """Be found."""
        self.calls.append("in")
        await asyncio.sleep(0)

    async def unregister_endpoint_instance(self) -> None:
        """Be found no more."""
        self.calls.append("out")
        await asyncio.sleep(0)


def test_a_worker_is_out_for_as_long_as_there_is_any_reason() -> None:
    async def main() -> None:
        membership = Membership(endpoint)
        await membership.leave("a")
        await membership.leave("b")
        await membership.come_back("a")
        assert not membership.is_in
        await membership.come_back("b")
        assert membership.is_in

    endpoint = Endpoint()
    run_as_guest(main)
    assert endpoint.calls == ["out", "in"]


def test_changes_at_the_same_time_end_as_the_last_asked_for() -> None:
    async def main() -> None:
        membership = Membership(endpoint)
        async with trio.open_nursery() as nursery:
            for change in (membership.leave, membership.come_back, membership.leave):
                nursery.start_soon(change, "a")
                await trio.testing.wait_all_tasks_blocked()
        assert not membership.is_in

    endpoint = Endpoint()
    run_as_guest(main)
    assert endpoint.calls[-1] == "out"


def test_a_worker_that_discovery_has_forgotten_is_out_of_it_all_the_same() -> None:
    class Forgotten(Endpoint):
        async def unregister_endpoint_instance(self) -> None:
            await super().unregister_endpoint_instance()
            raise RuntimeError("no such instance")

    async def main() -> None:
        membership = Membership(endpoint)
        await membership.leave("a")
        assert not membership.is_in

    endpoint = Forgotten()
    run_as_guest(main)
    assert endpoint.calls == ["out"]


def test_what_discovery_has_forgotten_is_written_again_only_of_a_worker_that_is_to_be_found(tmp_path: Path) -> None:
    entry = tmp_path / str(WORKER)
    entry.write_text(json.dumps({"instance_id": WORKER}), encoding="utf-8")

    async def main() -> None:
        membership, entries = Membership(Endpoint()), Entries(tmp_path, WORKER)
        assert await membership.renew(entries) == []
        entry.unlink()
        await membership.leave("a")
        assert await membership.renew(entries) == []
        await membership.come_back("a")
        membership.stands_still = True
        assert await membership.renew(entries) == []
        assert not entry.exists()
        membership.stands_still = False
        assert await membership.renew(entries) == [entry]

    run_as_guest(main)
    assert entry.exists()


def test_a_folder_that_does_not_answer_keeps_nobody_from_ending(tmp_path: Path) -> None:
    begun, enough, ended = threading.Event(), threading.Event(), threading.Event()

    class Frozen(Entries):
        def renew(self) -> list[Path]:
            begun.set()
            enough.wait(PATIENCE)
            ended.set()
            return []

    async def main() -> None:
        membership = Membership(Endpoint())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(membership.renew, Frozen(tmp_path, WORKER))
            await trio.to_thread.run_sync(begun.wait)
            nursery.cancel_scope.cancel()

    try:
        run_as_guest(main)
        assert not ended.is_set()
    finally:
        enough.set()
    ended.wait()
