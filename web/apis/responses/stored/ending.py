"""Work at the end of a response, before its last event is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from web.storage.items import encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from web.apis.responses.answers import AnyItem, Outcome, Response
    from web.apis.responses.output.envelope import ResponseOptions
    from web.apis.responses.stored.archive import Archive
    from web.apis.responses.stored.conversations import ConversationLease
    from web.generation.asked import Asked


async def store_ended(
    archive: Archive | None, parsed: Asked[ResponseOptions], response: Response, turn: ConversationLease | None
) -> Outcome:
    """Add a response that has ended to its conversation, and store it.

    Args:
        archive: where it is stored; None where nothing is.
        parsed: the request that it answers.
        response: the response object; its `conversation` is null if it was cancelled or has failed.
        turn: of its conversation; None where it has none.

    Returns:
        The fields of the response that are otherwise than they were, because that could not be done.
    """
    outcome: Outcome = {}
    given, made = await encoded(parsed.options.input), await encoded(_without_logprobs(response["output"]))
    if turn is not None and response["conversation"] is not None and not await turn.append([*given, *made]):
        outcome["conversation"] = None
    if parsed.options.store and not (
        archive is not None and await archive.save(parsed, {**response, **outcome}, given, made)
    ):
        outcome["store"] = False
    return outcome


def _without_logprobs(output: Sequence[AnyItem]) -> list[AnyItem]:
    """Return items of an output as what continues it reads them: log-probabilities may be megabytes."""
    return [
        item | {"content": [part | {"logprobs": []} if "logprobs" in part else part for part in item["content"]]}
        if item["type"] == "message"
        else item
        for item in output
    ]
