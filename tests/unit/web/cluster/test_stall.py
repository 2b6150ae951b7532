"""A loop that is blocked, as it would be by a call that never ends."""

from __future__ import annotations

import asyncio
import threading

from web.cluster.membership import Membership
from web.cluster.stall import StallWatch

LONG = 60.0


class Endpoint:
    """Tells threads what is asked of it."""

    def __init__(self) -> None:
        self.left = threading.Event()
        self.back = asyncio.Event()

    async def register_endpoint_instance(self) -> None:
        """Be found."""
        self.back.set()

    async def unregister_endpoint_instance(self) -> None:
        """Be found no more."""
        self.left.set()


def test_a_worker_whose_loop_stands_still_is_out_until_it_turns_again() -> None:
    endpoint = Endpoint()

    async def main() -> None:
        membership = Membership(endpoint)
        with StallWatch(asyncio.get_running_loop(), endpoint, membership, patience=0.01, look_every=0.001):
            assert endpoint.left.wait(LONG)  # which blocks the loop
            assert not endpoint.back.is_set()
            assert membership.stands_still
            await endpoint.back.wait()
            assert not membership.stands_still

    asyncio.run(main())


def test_a_worker_that_discovery_has_forgotten_meanwhile_comes_back_all_the_same() -> None:
    class Forgotten(Endpoint):
        async def unregister_endpoint_instance(self) -> None:
            self.left.set()
            raise RuntimeError("no such instance")

    endpoint = Forgotten()

    async def main() -> None:
        with StallWatch(asyncio.get_running_loop(), endpoint, Membership(endpoint), patience=0.01, look_every=0.001):
            assert endpoint.left.wait(LONG)  # which blocks the loop
            await endpoint.back.wait()

    asyncio.run(main())


def test_one_that_has_left_for_another_reason_stays_out() -> None:
    endpoint = Endpoint()
    asked = threading.Event()

    class Out(Membership):
        """Has left, and tells when it is asked."""

        @property
        def is_in(self) -> bool:
            """Never."""
            asked.set()
            return False

    async def main() -> None:
        with StallWatch(asyncio.get_running_loop(), endpoint, Out(endpoint), patience=0.01, look_every=0.001):
            assert asked.wait(LONG)

    asyncio.run(main())
    assert not endpoint.left.is_set()
