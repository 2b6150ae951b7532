"""Answers of the routes by which clients come back."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class Unfinished(TypedDict):
    """The answer is not there yet."""

    id: str
    status: Literal["in_progress"]
