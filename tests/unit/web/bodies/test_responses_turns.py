"""Who encodes a long value lets others have their turn, however small its parts are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from actors.generating.unread import Unread
from runtime.common.units import KIB
from web.bodies.responses import encode_json, paged_json_response


async def paged(value: object) -> object:
    return await paged_json_response(value, Unread().backlog("of a test"), 64 * KIB)


@pytest.mark.parametrize("encode", [encode_json, paged])
@pytest.mark.parametrize("value", [["a"] * 20_000, {str(number): None for number in range(40_000)}])
async def test_many_short_parts_are_made_in_many_turns(
    encode: Callable[[object], Awaitable[object]], value: object
) -> None:
    turns = 0

    async def neighbour() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(neighbour)
        await encode(value)
        nursery.cancel_scope.cancel()
    assert turns >= 40
