"""Small models for benchmarks that run in this process."""

from __future__ import annotations

from bench.engine.models.open_models import EMBEDDED, ModelSpec

DEPTH, TOKENS = 8, 6
ROOM = ModelSpec(EMBEDDED, slots=2, context=DEPTH + TOKENS + 1, device="cpu", dtype="float32")
