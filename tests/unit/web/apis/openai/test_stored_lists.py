"""Pages of stored chats, and of their messages."""

from __future__ import annotations

from openai.types.chat import ChatCompletionStoreMessage

from tests.fakes.engine import FakeEngine, say
from tests.unit.web.apis.openai.kept import Json, answer, get, serving
from tests.unit.web.apps import CHAT, error_in
from tests.unit.web.openapi.documents import check, document_of, schema_of


async def test_completions_are_listed_in_pages_and_filtered() -> None:
    document = await document_of()
    async with serving() as (client, _):
        made = [
            (await answer(client, model=f"m{number % 2}", metadata={"n": str(number), "all": "x"}))["id"]
            for number in range(5)
        ]
        seen, after = list[str](), ""
        while True:
            page = await get(client, f"?limit=2{after}")
            check(schema_of(document, "get", CHAT, 200), page)
            seen += [completion["id"] for completion in page["data"]]
            assert (page["first_id"], page["last_id"]) == (page["data"][0]["id"], page["data"][-1]["id"])
            if not page["has_more"]:
                break
            after = f"&after={page['last_id']}"
        assert seen == made

        async def ids(query: str) -> list[str]:
            return [completion["id"] for completion in (await get(client, query))["data"]]

        assert await ids("?order=desc&limit=3") == made[:1:-1]
        assert await ids("?model=m1") == made[1::2]
        assert await ids("?metadata[n]=3&metadata[all]=x") == [made[3]]
        assert await ids("?metadata[n]=3&model=m0") == []
        assert (await error_in(await client.get(f"{CHAT}?metadata[]=null"), 400))["param"] == "metadata"
        for wrong in ("limit=0", "limit=101", "limit=x", "limit=", "order=up", "after=nothing"):
            error = await error_in(await client.get(f"{CHAT}?{wrong}"), 400)
            assert error["param"] == wrong.partition("=")[0]
        many = "&".join(f"metadata[k{number}]=v" for number in range(17))
        assert (await error_in(await client.get(f"{CHAT}?{many}"), 400))["param"] == "metadata"


CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


async def test_the_messages_of_a_chat_are_listed() -> None:
    document = await document_of()
    messages: list[Json] = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "eve"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "ok", "tool_call_id": "call_1"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "user", "content": "again"},
    ]
    engine = FakeEngine(say("yes"))
    engine.model.context_length = 4096
    async with serving(engine) as (client, _):
        made = await answer(client, messages=messages)
        page = await get(client, f"/{made['id']}/messages")
        check(schema_of(document, "get", f"{CHAT}/{{completion_id}}/messages", 200), page)
        for message in page["data"]:  # that model has the assistant's role alone; OpenAI answers with all of them
            ChatCompletionStoreMessage.model_validate(message | {"role": "assistant"}, strict=True)
        said = [(m["role"], m["content"], m["content_parts"], m["refusal"]) for m in page["data"]]
        assert said == [
            ("developer", "be brief", None, None),
            ("user", "a\nb", messages[1]["content"], None),
            ("assistant", None, None, None),
            ("tool", "ok", None, None),
            ("assistant", "", [], "no"),
            ("user", "again", None, None),
        ]
        assert page["data"][1]["name"] == "eve"
        assert page["data"][2]["tool_calls"] == [CALL]
        assert page["data"][3]["tool_call_id"] == "call_1"
        assert [message["id"] for message in page["data"]] == [f"{made['id']}-{number}" for number in range(6)]
        last = await get(client, f"/{made['id']}/messages?order=desc&limit=1&after={made['id']}-5")
        assert ([message["id"] for message in last["data"]], last["has_more"]) == ([f"{made['id']}-4"], True)
