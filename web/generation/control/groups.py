"""The routes of groups: which there are, and the end of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from actors.groups.request_groups import LiveGroup
from web.bodies.responses import json_response, paged_json_response, response_backlog
from web.http.asgi import current_request
from web.openapi.operations import LISTS, Parameter, Reply

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from actors.engine import Engine
    from web.openapi.operations import Api


class GroupList(TypedDict):
    """The groups."""

    data: Iterable[LiveGroup]


class EndedGroup(TypedDict):
    """The ids of the requests that were ended, those of the groups in it among them."""

    group: str
    cancelled: list[str]


def add_routes(api: Api, engine: Engine, write_bytes: int) -> None:
    """Add the routes to an API.

    Args:
        api: to be extended.
        engine: whose requests belong to groups.
        write_bytes: of one write to a connection.
    """

    @api.get("/v1/groups", {200: Reply.json(GroupList)}, LISTS)
    async def list_groups() -> Response:
        """List the groups that have live requests."""
        key = current_request().key
        found = (group for group in engine.groups.live() if key is None or key.may_see(group.owner))
        answer = GroupList(data=found)
        return await paged_json_response(answer, response_backlog(engine.unread), write_bytes)

    @api.delete(
        "/v1/groups/<path:group>",
        {200: Reply.json(EndedGroup)},
        parameters=(Parameter("group", "As in the requests' `cede.group`; it may have slashes.", place="path"),),
    )
    async def end_group(group: str) -> Response:
        """Cancel all live requests of a group, and of the groups in it.

        The group is of whoever asks: another's of the same name is another group.
        """
        return json_response(EndedGroup(group=group, cancelled=engine.groups.end_group(current_request().owner, group)))
