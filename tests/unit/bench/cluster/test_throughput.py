"""Measures of a front door, without a cluster."""

from __future__ import annotations

import httpx
import pytest

from bench.cluster.throughput import Load, Unfinished, generate, tokens_a_second

USAGE = 'data: {"choices": [], "usage": {"completion_tokens": %d}}\n\n'


def answering(text: str, asked: list[str] | None = None) -> httpx.AsyncClient:
    """A client of a server that says this, whatever it is asked."""

    def answer(request: httpx.Request) -> httpx.Response:
        if asked is not None:
            asked.append(request.url.host)
        return httpx.Response(200, text=text)

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


async def test_a_stream_that_breaks_off_is_no_measure() -> None:
    for said in ("", 'data: {"error": {"message": "no"}}\n\n', USAGE % 7):
        async with answering(said) as client:
            with pytest.raises(Unfinished, match="of 8"):
                await generate(client, "http://a", "m", "p", 8)


async def test_each_address_has_its_streams(autojump_clock: object) -> None:
    asked: list[str] = []
    async with answering(USAGE % 8, asked) as client:
        with pytest.raises(ZeroDivisionError):  # nothing takes time here
            await tokens_a_second(client, ["http://a", "http://b"], "m", Load(3, 8, 1), 0)
    assert sorted(asked) == ["a"] * 3 + ["b"] * 3
