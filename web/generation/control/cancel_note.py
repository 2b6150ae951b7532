"""The object `cede` of an answer: what has become of its request, for which the APIs have no word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from actors.core.generation import Finished


class CancelNote(TypedDict):
    """Facts about an answer that the API has no word for."""

    cancelled: NotRequired[Annotated[str | None, Field(description="Why the answer was cut short, as in its receipt.")]]
    warmed_tokens: NotRequired[
        Annotated[
            int | None,
            Field(description="Of a warm request: how many tokens of the prompt a request that comes next finds read."),
        ]
    ]


def cancel_note(finished: Finished) -> dict[str, Any]:
    """Return the field `cede` of what ends an answer; nothing where there is nothing to tell."""
    fields: dict[str, Any] = {}
    if finished.cancelled is not None:
        fields["cancelled"] = finished.cancelled.value
    if finished.warmed_tokens is not None:
        fields["warmed_tokens"] = finished.warmed_tokens
    return {"cede": fields} if fields else {}
