"""Scores of llama.cpp's server after each token of a text, and how far they are from those of a model of cede's.

The server answers with the likeliest tokens only.  So distributions are compared over these and over all others
together: the KL divergence of that is never more than the whole, and next to it where these tokens have most of the
probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx
    from torch import Tensor

SECONDS = 120.0  # that an answer may take


@dataclass(frozen=True, slots=True)
class TopTokens:
    """The likeliest tokens at some positions of a text.

    Attributes:
        ids: `[positions, tokens]`.
        logprobs: likewise, in nats.
    """

    ids: Tensor
    logprobs: Tensor

    def divergence(self, full: Tensor) -> Tensor:
        """Compute KL from the distributions of `full`, scores `[positions, vocab]`, to these: `[positions]`."""
        return self._divergence(full, self.logprobs)

    def divergence_of(self, full: Tensor, other: Tensor) -> Tensor:
        """Compute the same to the distributions of other scores, over the same tokens: `[positions]`."""
        return self._divergence(full, other.log_softmax(-1).gather(-1, self.ids))

    def _divergence(self, full: Tensor, found: Tensor) -> Tensor:
        expected = _with_rest(full.log_softmax(-1).gather(-1, self.ids))
        return (expected.exp() * (expected - _with_rest(found))).sum(-1)


def _with_rest(logprobs: Tensor) -> Tensor:
    """Append the log-probability of all other tokens together: `[positions, tokens + 1]`."""
    wide = logprobs.double()
    rest = (1 - wide.exp().sum(-1, keepdim=True)).clamp_(min=torch.finfo(torch.float32).eps)
    return torch.cat((wide, rest.log()), dim=-1)


def ask_top_tokens(client: httpx.Client, token_ids: Sequence[int], count: int) -> TopTokens:
    """Ask for the likeliest `count` tokens after each token of a text.

    The server keeps the text's KV from one question to the next, so that each costs it a token or two.

    Args:
        client: of a `llama-server`, with one slot.
        token_ids: of the text.
        count: at each position.

    Raises:
        httpx.HTTPError: the server does not answer, or refuses.
    """
    found = [_ask(client, token_ids[:end], count) for end in range(1, len(token_ids) + 1)]
    ids, logprobs = zip(*found, strict=True)
    return TopTokens(torch.tensor(ids), torch.tensor(logprobs))


def _ask(client: httpx.Client, prompt: Sequence[int], count: int) -> tuple[list[int], list[float]]:
    body = {
        "prompt": list(prompt),
        "n_predict": 1,
        "n_probs": count,
        "temperature": 0,
        "cache_prompt": True,
    }
    response = client.post("/completion", json=body, timeout=SECONDS)
    response.raise_for_status()
    top = response.json()["completion_probabilities"][0]["top_logprobs"]
    return [entry["id"] for entry in top], [entry["logprob"] for entry in top]
