"""Answers of the routes by which clients come back.  Times are seconds since the epoch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from web.openapi.operations import Answer


class Unfinished(Answer):
    """The answer is not there yet."""

    id: str
    status: Literal["in_progress"]


class DetachableRequest(Answer):
    """A request that may outlive its client, or has."""

    id: str
    status: Literal["in_progress", "ended"]
    stream: bool = Field(description="Whether it is read at `/stream`; else its answer is at `/result`.")
    on_disconnect: Literal["cancel", "finish_prefill", "detach"]
    readers: int
    attaches: int = Field(description="Readers that came after its beginning.")
    detached_at: float | None = Field(description="When its last reader left; null while it has one.")
    unread_tokens: int = Field(description="That were generated since then.")
    events: int = Field(description="Of its answer, so far.")
    bytes: int = Field(description="Of its answer, so far.")
    kept_until: float | None = Field(description="Null while it runs.")
    owner: str | None = Field(description="The name of the API key that asked.")
