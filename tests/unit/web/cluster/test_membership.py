"""In discovery, and out of it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from web.cluster.liveness.entries import Entries
from web.cluster.membership import Membership

if TYPE_CHECKING:
    from pathlib import Path

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
    asyncio.run(main())
    assert endpoint.calls == ["out", "in"]


def test_changes_at_the_same_time_end_as_the_last_asked_for() -> None:
    async def main() -> None:
        membership = Membership(endpoint)
        await asyncio.gather(membership.leave("a"), membership.come_back("a"), membership.leave("a"))
        assert not membership.is_in

    endpoint = Endpoint()
    asyncio.run(main())
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
    asyncio.run(main())
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

    asyncio.run(main())
    assert entry.exists()
