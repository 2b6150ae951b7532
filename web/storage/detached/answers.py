"""Answers of the routes by which clients come back.  Times are seconds since the epoch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict


class Unfinished(TypedDict):
    """The answer is not there yet."""

    id: str
    status: Literal["in_progress"]


class DetachableRequest(TypedDict):
    """A request that may outlive its client, or has."""

    id: str
    status: Literal["in_progress", "ended"]
    stream: Annotated[bool, Field(description="Whether it is read at `/stream`; else its answer is at `/result`.")]
    on_disconnect: Literal["cancel", "finish_prefill", "detach"]
    readers: int
    attaches: Annotated[int, Field(description="Readers that came after its beginning.")]
    detached_at: Annotated[float | None, Field(description="When its last reader left; null while it has one.")]
    unread_tokens: Annotated[int, Field(description="That were generated since then.")]
    events: Annotated[int, Field(description="Of its answer, so far.")]
    bytes: Annotated[int, Field(description="Of its answer, so far.")]
    kept_until: Annotated[float | None, Field(description="Null while it runs.")]
    owner: Annotated[str | None, Field(description="The name of the API key that asked.")]
