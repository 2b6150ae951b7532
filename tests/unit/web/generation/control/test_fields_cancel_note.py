"""A warm request reads its prompt and no more, in every API, and is told how much of it a next one will find."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from actors.core.generation import FinishReason
from actors.core.receipts import CancelReason
from tests.fakes.byte_tokenizer import InfillTokenizer
from tests.fakes.engine import FakeEngine, as_engine, finished
from tests.rows import every_row
from tests.unit.web.generation.control.test_fields import GENERATING
from web.serving.app import create_app

NOTHING: dict[str, dict[str, Any]] = {
    "/v1/responses": {"max_output_tokens": 0},
    "/infill": {"n_predict": 0},
    "/api/chat": {"options": {"num_predict": 0}},
    "/api/generate": {"options": {"num_predict": 0}},
}
"""How each API says that nothing is to be generated, where that is not `max_tokens`."""

SOME = {"max_tokens": 5, "n_predict": 5, "max_output_tokens": 5, "options": {"num_predict": 5}}


async def post(engine: FakeEngine, path: str, headers: dict[str, str], **fields: Any) -> tuple[int, str]:  # noqa: ANN401
    engine.model.tokenizer = InfillTokenizer()
    body = GENERATING[path] | NOTHING.get(path, {"max_tokens": 0}) | fields
    response = await create_app(as_engine(engine)).test_client().post(path, json=body, headers=headers)
    return response.status_code, await response.get_data(as_text=True)


def told(text: str) -> dict[str, Any]:
    """The object `cede` of an answer, streamed or whole."""
    last = [line.removeprefix("data: ") for line in text.splitlines() if '"cede"' in line][-1]
    found: dict[str, Any] = _find(json.loads(last))
    return found


def _find(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return value.get("cede") or next(filter(None, map(_find, value.values())), None)
    return next(filter(None, map(_find, value)), None) if isinstance(value, list) else None


@every_row("path", GENERATING)
@every_row("by_header", [True, False])
@every_row("stream", [True, False])
async def test_each_api_tells_what_is_warm(path: str, by_header: bool, stream: bool) -> None:
    engine = FakeEngine([replace(finished(), warmed_tokens=7)])
    said = {"x-cede-warm": "true"} if by_header else {}
    status, text = await post(engine, path, said, stream=stream, **({} if by_header else {"cede": {"warm": True}}))
    assert status == 200, text
    asked = (await engine.next_request()).asked
    assert (asked.control.warm, asked.max_tokens) == (True, 0)
    assert told(text) == {"warmed_tokens": 7}


@every_row("path", GENERATING)
async def test_one_that_others_have_ended_is_no_error(path: str) -> None:
    last = replace(finished(reason=FinishReason.CANCELLED), cancelled=CancelReason.OTHER_WORK, warmed_tokens=3)
    engine = FakeEngine([last])
    status, text = await post(engine, path, {"x-cede-warm": "true"}, stream=False)
    assert (status, told(text)) == (200, {"cancelled": "other_work", "warmed_tokens": 3})


@every_row("path", GENERATING)
@every_row(
    "fields, named",
    [
        (
            {
                "max_tokens": 5,
                "n_predict": 5,
                "max_output_tokens": 5,
                "options": {"num_predict": 5},
                "cede": {"warm": True},
            },
            "cede.warm",
        ),
        ({"cede": {"warm": True, "after": "x"}}, "cede.after"),
        ({"cede": {"warm": "perhaps"}}, "cede.warm"),
    ],
)
async def test_what_contradicts_it_is_refused(path: str, fields: dict[str, Any], named: str) -> None:
    known = {"cede", *NOTHING.get(path, {"max_tokens": 0})}
    fields = {key: value for key, value in fields.items() if key in known}
    engine = FakeEngine([finished()])
    status, text = await post(engine, path, {}, stream=False, **fields)
    assert (status, engine.openings) == (400, 0), text
    assert f"'{named}'" in text


@every_row("path", [path for path in GENERATING if not path.startswith("/api/")])
async def test_without_it_a_prompt_alone_is_read_as_any_other_is(path: str) -> None:
    engine = FakeEngine([finished()])
    status, text = await post(engine, path, {}, stream=False)
    assert (status, '"cede"' in text) == (200, False), text
    asked = (await engine.next_request()).asked
    assert (asked.control.warm, asked.max_tokens) == (False, 0)
