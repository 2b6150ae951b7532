"""Samples of a server with two slots."""

from __future__ import annotations

from typing import Any

from web.commands.top.sample import Sample

MODEL = {"id": "a-model", "max_model_len": 1000}
POOL = {"positions": 1600, "free": 900, "held": 340, "resident": 360, "shared": 0, "promised": 0, "bytes": 2**20}
RAM = {"bytes": 2**20, "budget": 2**30}
RECEIPT = {
    "request_id": "gone",
    "reason": "operator",
    "phase": "decode",
    "detected_at": 9.0,
    "slot_freed_at": 9.01,
    "computed_tokens": 9,
    "kept_tokens": 8,
    "wasted_tokens": 1,
}


def request(name: str, *states: str, tokens: int = 0, created: float = 1000.0) -> dict[str, Any]:
    """A live request."""
    figures = {"completion_tokens": tokens, "prompt_tokens": 7, "created": created}
    return {"id": name, "states": list(states), "after": None} | figures


def slot(number: int, state: str = "idle", holder: str | None = None, tokens: int = 0) -> dict[str, Any]:
    """A slot; one that is free has as many tokens of its last holder."""
    return {"id": number, "state": state, "request_id": holder, "tokens": tokens, "resident_tokens": tokens}


def sample(
    at: float, slots: list[dict[str, Any]], requests: list[dict[str, Any]], steps: int = 0, **manager: object
) -> Sample:
    """Return what a server says at a time."""
    counts = {"steps": steps, "decode_tokens": 3 * steps, "prefill_tokens": 0, "queued": 0, "cancels": {"operator": 1}}
    times = {"last_step_seconds": 0.012, "step_target_seconds": 0.05, "cache": {"ram": RAM, "disk": None}}
    drafts = {"acceptance_rate": 0.755, "proposer": "mtp"}
    engine = {"manager": counts | times | {"pool": POOL} | manager, "speculation": drafts, "detachable": None}
    return Sample(at, 1000.0 + at, MODEL, slots, requests, [RECEIPT], {"": engine})
