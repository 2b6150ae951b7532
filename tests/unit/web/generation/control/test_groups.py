"""The routes of groups, and what a request says of related requests."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from pydantic import ValidationError

from actors.control import Control
from actors.core.hold import QueuePlace
from actors.core.receipts import CancelReason
from runtime.errors import RequestError
from tests.fakes.engine import FakeEngine, as_engine
from tests.unit.web.apps import make
from web.generation.control.fields import ControlFields, with_headers
from web.process.access.api_keys import ApiKey, KeyRing, digest_of, plain_key
from web.serving.app import create_app


def joined(stack: ExitStack, engine: FakeEngine, name: str, group: str | None, owner: str | None = None) -> list[str]:
    """Have a request live that belongs to a group; what it is told is in the list."""
    told = list[str]()
    member = stack.enter_context(engine.groups.joined(name, owner, Control(group=group)))
    member.admit([QueuePlace()], lambda reason: told.append(reason.value))
    return told


async def test_groups_are_listed_and_ended() -> None:
    engine = FakeEngine()
    client = make(engine).test_client()
    with ExitStack() as stack:
        told = [joined(stack, engine, f"r{n}", group) for n, group in enumerate(["a/b", "a/b", "a", None])]
        listed = await (await client.get("/v1/groups")).get_json()
        assert listed == {
            "data": [
                {"name": "a/b", "owner": None, "requests": ["r0", "r1"]},
                {"name": "a", "owner": None, "requests": ["r2"]},
            ]
        }
        ended = await (await client.delete("/v1/groups/a/b")).get_json()
        assert ended == {"group": "a/b", "cancelled": ["r0", "r1"]}
        assert told == [[CancelReason.GROUP], [CancelReason.GROUP], [], []]
        assert (await (await client.delete("/v1/groups/a")).get_json())["cancelled"] == ["r0", "r1", "r2"]
        assert (await (await client.delete("/v1/groups/nobody")).get_json())["cancelled"] == []
    assert (await (await client.get("/v1/groups")).get_json()) == {"data": []}


async def test_a_group_is_its_keys_alone_and_an_admin_sees_it() -> None:
    engine, mine = FakeEngine(), plain_key(b"sk-mine")
    keys = KeyRing([mine, plain_key(b"sk-other"), ApiKey(digest_of(b"sk-admin"), "root", admin=True)])
    client: Any = create_app(as_engine(engine), keys=keys).test_client()

    async def ask(key: str, method: str, path: str) -> Any:  # noqa: ANN401
        response = await client.open(path, method=method, headers={"authorization": f"Bearer {key}"})
        return await response.get_json()

    with ExitStack() as stack:
        told = joined(stack, engine, "r0", "g", mine.name)
        assert (await ask("sk-other", "GET", "/v1/groups")) == {"data": []}
        for key in ("sk-mine", "sk-admin"):
            (group,) = (await ask(key, "GET", "/v1/groups"))["data"]
            assert group == {"name": "g", "owner": mine.name, "requests": ["r0"]}
        for key in ("sk-other", "sk-admin"):
            assert (await ask(key, "DELETE", "/v1/groups/g"))["cancelled"] == []
        assert told == []
        assert (await ask("sk-mine", "DELETE", "/v1/groups/g"))["cancelled"] == ["r0"]


@pytest.mark.parametrize("name", ["", "/", "a/", "/a", "a//b", "x" * 257, 5, []])
def test_names_that_are_no_paths_are_refused(name: object) -> None:
    with pytest.raises(ValidationError):
        ControlFields.model_validate({"group": name})


@pytest.mark.parametrize("field", ["supersede", "after"])
def test_an_empty_name_is_none(field: str) -> None:
    with pytest.raises(RequestError, match="must not be empty"):
        with_headers(Control(), [(f"x-cede-{field}", "")])


def test_headers_say_it_as_well() -> None:
    headers = [("X-Cede-Group", "a/b"), ("x-cede-first-wins", "true"), ("x-cede-supersede", "k"), ("x-cede-after", "i")]
    assert with_headers(Control(group="c"), headers) == Control(group="a/b", first_wins=True, supersede="k", after="i")
