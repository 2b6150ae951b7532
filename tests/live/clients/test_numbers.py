"""Numbers at the edge of what JSON can say: each is served as meant, or a 400, and harms nobody in the same batch."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from typing import Any

import pytest

from tests.live.http_client import Http1, completion, prompt
from tests.live.server import COMPLETIONS, PATIENCE, Json, Server
from tests.rows import every_row

TOKENS = 12
GREEDY, DRAWN, REFUSED = "the likeliest tokens", "any tokens", "a 400"
HUGE = str(10**400)

CASES: list[tuple[str, str, str]] = [
    ("temperature", "0", GREEDY),
    ("temperature", "1e-320", GREEDY),
    ("temperature", "1e-40", GREEDY),
    ("temperature", "2", DRAWN),
    ("temperature", "1e308", REFUSED),
    ("temperature", "1e400", REFUSED),
    ("temperature", HUGE, REFUSED),
    ("top_p", "1e-320", GREEDY),
    ("top_p", "0.9999999999999999", DRAWN),
    ("top_p", "1e308", REFUSED),
    ("min_p", "1", GREEDY),
    ("min_p", "1e-320", DRAWN),
    ("min_p", "1e308", REFUSED),
    ("top_k", "1", GREEDY),
    ("top_k", "-1", DRAWN),
    ("top_k", str(2**63 - 1), DRAWN),
    ("top_k", str(2**70), REFUSED),
    ("top_k", HUGE, REFUSED),
    ("repetition_penalty", "0", REFUSED),
    ("repetition_penalty", "1e-320", REFUSED),
    ("repetition_penalty", "1e-40", REFUSED),
    ("repetition_penalty", "0.01", DRAWN),
    ("repetition_penalty", "100", DRAWN),
    ("repetition_penalty", "1e38", REFUSED),
    ("repeat_penalty", "1e308", REFUSED),
    ("presence_penalty", "1e-320", DRAWN),
    ("presence_penalty", "1e308", REFUSED),
    ("frequency_penalty", "-2", DRAWN),
    ("frequency_penalty", "-1e308", REFUSED),
    ("logit_bias", '{"5": 1e-320}', DRAWN),
    ("logit_bias", '{"5": -100, "6": 100}', DRAWN),
    ("logit_bias", '{"5": 1e308}', REFUSED),
    ("logit_bias", '{"5": -1e308}', REFUSED),
    ("logit_bias", '{"5": 1e400}', REFUSED),
    ("seed", "-1", DRAWN),
    ("seed", str(-(2**63)), DRAWN),
    ("seed", str(2**63 - 1), DRAWN),
    ("seed", str(2**70), REFUSED),
    ("n", str(2**70), REFUSED),
    ("best_of", HUGE, REFUSED),
    ("logprobs", "20", DRAWN),
    ("logprobs", str(2**70), REFUSED),
    ("min_tokens", str(TOKENS), DRAWN),
    ("min_tokens", HUGE, REFUSED),
    ("max_tokens", str(2**63 - 1), DRAWN),
    ("max_tokens", str(2**70), REFUSED),
    ("max_tokens", HUGE, REFUSED),
    ("max_tokens", "1" + "0" * 5000, REFUSED),
]


FIELDS: Json = {"prompt": prompt(20, seed=6), "max_tokens": TOKENS, "return_token_ids": True, "ignore_eos": True}
BESIDE = completion(prompt(40, seed=5), 24)
"""What shares its steps with each of the others."""


@pytest.fixture(scope="module")
def expected(running_four_slots: Server) -> tuple[list[int], Json]:
    """The neighbour's tokens alone, and the answer of the likeliest tokens."""
    with Http1(running_four_slots, BESIDE) as alone:
        return alone.read_all(), running_four_slots.ask("POST", COMPLETIONS, FIELDS | {"temperature": 0})[1]


def post(server: Server, body: str) -> tuple[int, Any]:
    with closing(http.client.HTTPConnection(*server.address, timeout=PATIENCE)) as connection:
        connection.request("POST", COMPLETIONS, body)
        response = connection.getresponse()
        return response.status, json.loads(response.read(), parse_constant=pytest.fail)  # NaN is no JSON


@every_row("name, value, outcome", CASES)
def test_a_number_is_served_or_refused(
    four_slots: Server, expected: tuple[list[int], Json], name: str, value: str, outcome: str
) -> None:
    tokens, greedy = expected
    fields = FIELDS | ({"stop": ["e", "s", " ", "\n"]} if name == "max_tokens" else {})
    plain = json.dumps({key: field for key, field in fields.items() if key != name})
    with Http1(four_slots, BESIDE) as beside:
        beside.read_tokens(1)
        status, answer = post(four_slots, f'{plain[:-1]}, "{name}": {value}}}')
        assert beside.read_all() == tokens
    if outcome == REFUSED:
        assert status == 400, answer
        assert set(answer["error"]) == {"message", "type", "param", "code"}
        assert answer["error"]["type"] == "invalid_request_error"
        return
    assert status == 200, answer
    if name != "max_tokens":
        assert len(answer["choices"][0]["token_ids"]) == TOKENS
    if outcome == GREEDY:
        assert answer["choices"] == greedy["choices"]
