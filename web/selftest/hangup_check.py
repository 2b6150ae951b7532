"""A real server on loopback, and a socket that hangs up: the last of `cede doctor`'s checks of cancellation."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import trio

from actors.selftest.cancel_checks import judge
from actors.selftest.step_aim import step_in
from runtime.selftest.findings import Mismatch
from web.http.listeners import open_listeners
from web.serving.server import Entrance, serve_engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.life import State
    from actors.engine import Engine
    from runtime.selftest.findings import Figures

TOKENS = 200  # asked for, of which most will not be generated


async def hang_up_in(phase: State, engine: Engine, prompt: Sequence[int], max_layers: int) -> Figures:
    """Ask over HTTP for a stream, and close the socket while a step of that kind runs.

    Raises:
        Mismatch: the receipt says otherwise than it should, or there is none.
    """
    stop = trio.Event()
    async with open_listeners("127.0.0.1", 0) as listeners, trio.open_nursery() as serving:
        await serving.start(serve_engine, engine, listeners, stop, Entrance())
        host, port, *_ = listeners[0].socket.getsockname()
        async with await trio.open_tcp_stream(host, port) as client:
            await client.send_all(_request(prompt))
            await step_in(engine, phase)
            (victim,) = engine.requests()
            closed_at = time.time()
        await engine.wait_all_ended()
        stop.set()
    receipts = [receipt for receipt in engine.receipts(1) if receipt.request_id == victim.id]
    if not receipts:
        raise Mismatch("the hang-up has left no receipt")
    figures = judge(receipts[0], phase.value, max_layers)
    assert receipts[0].slot_freed_at is not None
    engine.check_integrity()
    return {
        "close_to_cancel_ms": 1e3 * max(0.0, receipts[0].detected_at - closed_at),
        "close_to_slot_free_ms": 1e3 * (receipts[0].slot_freed_at - closed_at),
        **figures,
    }


def _request(prompt: Sequence[int]) -> bytes:
    asked = {"prompt": list(prompt), "max_tokens": TOKENS, "stream": True, "temperature": 0, "ignore_eos": True}
    body = json.dumps(asked | {"cache_prompt": False, "speculate": False}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body
