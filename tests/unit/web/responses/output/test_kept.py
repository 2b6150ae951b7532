"""What is stored of a response, and how it is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from web.responses.output.kept import BLOCK, KeptResponse, kept_body

if TYPE_CHECKING:
    import pytest

ASKED = [{"type": "message", "id": "msg_0", "role": "user", "content": "a\nb"}]
CALL = {"type": "function_call", "id": "fc_1", "name": "f", "arguments": "{}"}
LOGPROBS = [{"token": str(number), "logprob": -1.5, "bytes": [], "top_logprobs": []} for number in range(2000)]


def said(logprobs: list[Any]) -> dict[str, Any]:
    part = {"type": "output_text", "text": "c\nd", "annotations": [], "logprobs": logprobs}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


RESPONSE = {"id": "resp_1", "background": True, "output": [said(LOGPROBS), CALL]}


async def bodies() -> list[bytes]:
    """A body as it is stored now, and as it was before."""
    return [await kept_body(RESPONSE, ASKED), json.dumps({"response": RESPONSE, "input": ASKED}).encode()]


async def test_a_response_is_given_back_whole_and_goes_on_without_log_probabilities() -> None:
    for body in await bodies():
        stored = KeptResponse(body)
        assert json.loads(b"".join(stored.iter_json())) == stored.response() == RESPONSE
        assert (stored.input(), stored.output()) == (ASKED, [said([]), CALL])


async def test_what_may_be_long_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for a client that asks for it again, nor for a response that continues it."""
    body, _ = await bodies()
    read: list[int] = []
    loads = json.loads

    def noted(text: bytes) -> object:
        read.append(len(text))
        return loads(text)

    monkeypatch.setattr(json, "loads", noted)
    stored = KeptResponse(body)
    assert max(map(len, stored.iter_json())) <= BLOCK
    assert read == []
    stored.input()
    stored.output()
    assert sum(read) < 1000 < len(body)
