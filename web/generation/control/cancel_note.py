"""The object `cede` of an answer: what has become of its request, for which the APIs have no word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from actors.core.generation import Finished


class CancelNote(TypedDict, total=False):
    """Facts about an answer that the API has no word for.

    Attributes:
        cancelled: why the answer was cut short, as in its receipt.
        warmed_tokens: of a warm request: how many tokens of the prompt a request that comes next finds read.
    """

    cancelled: str
    warmed_tokens: int


class Noted(TypedDict, total=False):
    """The field that notes them, where there are any."""

    cede: CancelNote


def cancel_note(finished: Finished) -> Noted:
    """Return the field `cede` of what ends an answer; nothing where there is nothing to tell."""
    note: CancelNote = {}
    if finished.cancelled is not None:
        note["cancelled"] = finished.cancelled.value
    if finished.warmed_tokens is not None:
        note["warmed_tokens"] = finished.warmed_tokens
    return {"cede": note} if note else {}
