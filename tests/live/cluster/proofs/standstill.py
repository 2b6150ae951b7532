"""Clients that hang up while no device gets anywhere: whoever ends then was cancelled, and has not ended by itself.

Without that, a worker that drops an answer which nobody takes, and cancels nothing, looks much like one that cancels:
its request ends with the next token.  A prompt that is being read, and a request that waits, have no next token.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack

import trio

from tests.live.cluster.clusters import chat
from tests.live.cluster.parts import ForkedWorker, Parts
from tests.live.cluster.proofs.asking import Asking, asked
from tests.live.cluster.proofs.evidence import leaks, receipts_of
from tests.live.cluster.proofs.load import streamed
from tests.live.server import Json, wait_for

WAITING = 2  # on each worker, behind those that have its slots
WORDS = 900  # of a prompt; it takes hundreds of steps to read, and one of them may run when the device goes on


async def close_held(parts: Parts, slots: int) -> list[str]:
    """Hold all devices, let clients hang up that are read and that wait, and say what is wrong with their ends.

    Args:
        parts: a cluster on which nothing runs.
        slots: of each worker.
    """
    asking: dict[str, Asking] = {}
    async with AsyncExitStack() as clients:
        with ExitStack() as devices:
            for worker in parts.living():
                devices.enter_context(worker.held())
                for number in range(slots + WAITING):
                    one = await clients.enter_async_context(asked(parts.address, body(worker, number)))
                    asking[one.answer.id] = one
            queued = await trio.to_thread.run_sync(wait_full, parts, slots)
            for request_id in sorted(asking, key=queued.__contains__):  # those in the queue last
                await asking[request_id].hang_up(rudely=False)
            await trio.to_thread.run_sync(wait_left, parts, queued)
    faults = await trio.to_thread.run_sync(leaks, parts.living())
    receipts = await trio.to_thread.run_sync(receipts_of, parts.living())
    for request_id in asking:
        found = [(receipt["reason"], receipt["phase"]) for receipt in receipts.get(request_id, ())]
        wanted = [("client_disconnect", "queued" if request_id in queued else "prefill")]
        if found != wanted:
            faults.append(f"{request_id} hung up while the device stood still, and has {found}, not {wanted}")
    return faults


def body(worker: ForkedWorker, number: int) -> Json:
    """Return what is asked of one worker."""
    text = f"# {worker.worker_id} {number}\n" + "x = 1\n" * WORDS
    return streamed(chat(text, 3000, nvext={"backend_instance_id": int(worker.worker_id, 16)}))


def wait_full(parts: Parts, slots: int) -> set[str]:
    """Wait until each worker reads as many prompts as it has slots, and others wait; returns these."""

    def is_full(worker: ForkedWorker) -> bool:
        states = [state for one in worker.requests().values() for state in one["states"]]
        return (states.count("prefill"), states.count("queued")) == (slots, WAITING)

    wait_for(lambda: all(map(is_full, parts.living())), "all slots to be taken")
    live = [item for worker in parts.living() for item in worker.requests().items()]
    return {request_id for request_id, one in live if one["states"] == ["queued"]}


def wait_left(parts: Parts, queued: set[str]) -> None:
    """Wait until none of these is with a worker."""
    wait_for(
        lambda: not any(queued & worker.requests().keys() for worker in parts.living()),
        "those who wait to be cancelled while no step ends",
    )
