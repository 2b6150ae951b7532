"""A worker whose device is lost, and one that Dynamo does not let go of."""

from __future__ import annotations

import asyncio

import pytest
import trio
import trio.testing

from actors.core.events import DeviceIsBack, DeviceIsLost
from tests.live.server import PATIENCE
from tests.unit.web.cluster.test_membership import Endpoint
from web.cluster.guest import run_as_guest
from web.cluster.membership import Membership
from web.cluster.worker import DeviceHealth, let_go


def test_a_worker_is_out_of_discovery_while_its_device_is_lost() -> None:
    endpoint = Endpoint()

    async def main() -> None:
        membership = Membership(endpoint)
        health = DeviceHealth()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(health.follow, membership)
            health.device_lost(DeviceIsLost("it hangs", queue_waits=False))
            while endpoint.calls != ["out"]:
                await trio.lowlevel.checkpoint()
            health.device_back(DeviceIsBack())
            while endpoint.calls != ["out", "in"]:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    run_as_guest(main)


def test_what_dynamo_does_not_let_go_of_is_named_and_left(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        serving = {name: loop.create_future() for name in ("requests", "questions", "others")}
        serving["questions"].set_result(None)
        serving["others"].set_exception(RuntimeError("no lease"))
        with trio.move_on_after(0), trio.fail_after(PATIENCE):
            await let_go(serving)

    run_as_guest(main, trio.testing.MockClock(autojump_threshold=0.01))
    assert "not let go of requests" in caplog.text
    assert "questions" not in caplog.text
    assert "Dynamo served others until it failed: no lease" in caplog.text
