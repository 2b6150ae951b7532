"""The utilities over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.engine import posting
from tests.unit.web.apps import HI, error_in, make
from tests.unit.web.openapi.documents import check, document_of, schema_of
from web.apis.utilities.routes import RERANKERS


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"content": "hé", "with_pieces": True}),
        ("/tokenize", {"content": "hé"}),
        ("/tokenize", {"prompt": "hi", "return_token_strs": True}),
        ("/tokenize", HI),
        ("/detokenize", {"tokens": [104, 105]}),
        ("/apply-template", HI),
    ],
)
async def test_what_a_body_is_answered_with(path: str, body: dict[str, Any]) -> None:
    response = await make().test_client().post(path, json=body)
    assert response.status_code == 200
    check(schema_of(await document_of(), "post", path, 200), await response.get_json())


@pytest.mark.parametrize("path", ["/props", "/version"])
async def test_what_is_known(path: str) -> None:
    response = await make().test_client().get(path)
    assert response.status_code == 200
    check(schema_of(await document_of(), "get", path, 200), await response.get_json())


async def test_a_long_answer_comes_whole() -> None:
    async with posting(make(), "/tokenize", {"prompt": "x" * 100_000}) as connection:
        answer = json.loads(await connection.receive_all())
    assert answer["count"] == len(answer["tokens"]) == 100_001


async def test_what_is_wrong_is_told_in_openai_s_shape() -> None:
    error = await error_in(await make().test_client().post("/tokenize", json={}), 400)
    assert error["param"] == "content"


@pytest.mark.parametrize("path", RERANKERS)
async def test_documents_are_not_ranked(path: str) -> None:
    response = await make().test_client().post(path, json={"query": "a", "documents": ["b"]})
    error = await error_in(response, 400)
    assert error["code"] == "unsupported_endpoint"
