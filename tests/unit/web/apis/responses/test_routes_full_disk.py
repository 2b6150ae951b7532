"""Responses whose disk takes nothing any more: they are read, gone on with and deleted, and nothing new is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.web.apis.responses.asking import PATH, serving
from tests.unit.web.apps import error_in
from tests.unit.web.storage.disks import disk_of


async def test_a_full_disk_is_read_and_made_room_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_of(tmp_path, monkeypatch)
    async with serving(state_dir=tmp_path) as (client, _):
        ids = [(await (await client.post(PATH, json={"input": "a"})).get_json())["id"] for _ in range(2)]
        made = await client.post("/v1/conversations", json={"items": [{"role": "user", "content": "a"}]})
        conversation = f"/v1/conversations/{(await made.get_json())['id']}"
        disk.takes = "nothing beside the reserve"
        for path in (f"{PATH}/{ids[0]}", f"{PATH}/{ids[0]}/input_items", conversation, f"{conversation}/items"):
            assert (await client.get(path)).status_code == 200, path
        continued = await client.post(PATH, json={"input": "b", "previous_response_id": ids[0]})
        assert continued.status_code == 200
        assert (await continued.get_json())["store"] is False
        refused = await error_in(await client.post(conversation, json={"metadata": {}}), 503)
        assert (refused["code"], "can be read" in refused["message"]) == ("store_failed", True)
        for path in (f"{PATH}/{ids[1]}", conversation):
            assert (await client.delete(path)).status_code == 200, path
            assert (await client.get(path)).status_code == 404, path
        disk.takes = "nothing"
        assert (await error_in(await client.delete(f"{PATH}/{ids[0]}"), 503))["code"] == "store_failed"
        assert (await client.get(f"{PATH}/{ids[0]}")).status_code == 200
