"""Gemma 4's drafters against transformers'."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch

from runtime.kv.rings import plan_rings
from runtime.loading import load
from runtime.loading.served import Proposer
from runtime.nn.model import Transformer
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampleSpec
from runtime.step.step import Segment
from tests.models.assistants import write_gemma4
from tests.models.speculation_driver import open_pair
from tests.models.step_driver import random_tokens, run

PROMPT = random_tokens(40, below=256, seed=1)
DRAFTS = [7, 200, 31]  # after PROMPT


def draft(slot: int, first: int, start: int, token: int) -> Segment:
    spec = SampleSpec(SamplingParams(seed=1), position=start + 1, generated=0, for_rejection=True)
    return Segment(slot, start, [token], sample=spec, first=first)


def logprobs(assistant: Transformer, segments: Sequence[Segment]) -> torch.Tensor:
    rows = []
    for result in run(assistant, segments).segments:
        (token,) = result.tokens
        assert token.distribution is not None
        rows.append(token.distribution.log())
    return torch.stack(rows)


@pytest.mark.parametrize("slack", [None, 24], ids=["all positions", "rings"])
@pytest.mark.parametrize("family", ["gemma4", "gemma4-shared-values", "gemma4-layer-inputs"])
def test_drafts_are_those_of_transformers(
    family: str, slack: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two sequences that share steps, one longer than the window, which the target verifies meanwhile."""
    if slack is not None:
        monkeypatch.setattr(load, "plan_rings", partial(plan_rings, slack=slack))
    reference = write_gemma4(tmp_path / "target", tmp_path / "assistant", family)
    target, assistant = open_pair(tmp_path / "target", Proposer.ASSISTANT, draft=tmp_path / "assistant")
    assert assistant is not None
    assert (target.kv.rings is None) == (slack is None)
    texts = [PROMPT, PROMPT[5:14]]
    for start in range(0, len(PROMPT), 20):
        pieces = [text[:-1][start : start + 20] for text in texts]
        run(target, [Segment(slot, start, piece) for slot, piece in enumerate(pieces) if piece])
    run(target, [Segment(0, len(PROMPT) - 1, [9, 8, 7, 6])])  # rejected: the state before is as it was
    found, newest = [], [len(text) - 1 for text in texts]
    for count in range(1 + len(DRAFTS)):
        tokens = [[text[-1], *DRAFTS][count] for text in texts]
        segments = [draft(slot, newest[slot], newest[slot] + count, token) for slot, token in enumerate(tokens)]
        found.append(logprobs(assistant, segments))
    for slot, text in enumerate(texts):
        expected = reference.drafts(text, DRAFTS)
        torch.testing.assert_close(torch.stack([rows[slot] for rows in found]), expected, atol=2e-4, rtol=1e-4)
