"""What is done when a response has ended, before its last event is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from web.bodies.json_response import encode_json
from web.responses.output.kept import without_logprobs

if TYPE_CHECKING:
    from web.responses.conversion import ParsedResponse
    from web.responses.stored.archive import Archive
    from web.responses.stored.conversations import Turn

Json = dict[str, Any]


async def store_ended(archive: Archive | None, parsed: ParsedResponse, response: Json, turn: Turn | None) -> Json:
    """Add a response that has ended to its conversation, and store it.

    Args:
        archive: where it is stored; None where nothing is.
        parsed: the request that it answers.
        response: the response object; its `conversation` is null if it was cancelled or has failed.
        turn: of its conversation; None where it has none.

    Returns:
        The fields of the response that are otherwise than they were, because that could not be done.
    """
    outcome: Json = {}
    if turn is not None and response["conversation"] is not None:
        output: list[Json] = json.loads(await encode_json(without_logprobs(response["output"])))
        if not await turn.append([*parsed.input, *output]):
            outcome["conversation"] = None
    if parsed.store and not (archive is not None and await archive.save(parsed, response | outcome)):
        outcome["store"] = False
    return outcome
