"""The object `cede` of an answer: what has become of its request, for which the APIs have no word."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from actors.core.generation import Finished


class CancelNote(TypedDict):
    """Facts about an answer that the API has no word for.

    Attributes:
        cancelled: why the answer was cut short, as in its receipt.
        warmed_tokens: of a warm request: how many tokens of the prompt a request that comes next finds read.
    """

    cancelled: NotRequired[str]
    warmed_tokens: NotRequired[int]


def cancel_note(finished: Finished) -> dict[str, CancelNote]:
    """Return the field `cede` of what ends an answer; nothing where there is nothing to tell."""
    fields: CancelNote = {}
    if finished.cancelled is not None:
        fields["cancelled"] = finished.cancelled.value
    if finished.warmed_tokens is not None:
        fields["warmed_tokens"] = finished.warmed_tokens
    return {"cede": fields} if fields else {}
