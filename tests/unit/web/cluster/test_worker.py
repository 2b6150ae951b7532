"""A worker whose device is lost."""

from __future__ import annotations

import trio

from actors.core.events import DeviceIsBack, DeviceIsLost
from tests.unit.web.cluster.test_membership import Endpoint
from web.cluster.guest import run_as_guest
from web.cluster.membership import Membership
from web.cluster.worker import DeviceHealth


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
