"""A server, and transformers' model of the checkpoint that it serves: each output is checked against that."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForCausalLM

from tests.live.fork_server import ForkedServer
from tests.live.kv.servers import FIXED, ask, plain, tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.live.server import Json

CONTEXT = 4096
TOKENS = 16
ROUNDING = 1e-4  # of a log-probability in float32, after so many tokens


@dataclass(frozen=True, slots=True)
class Subject:
    """Both of them."""

    server: ForkedServer
    reference: Any

    @torch.inference_mode()
    def check(self, ids: Sequence[int], output: Sequence[int]) -> None:
        """Check that each token scores as high with transformers as any other, to within the rounding of sums."""
        logits = self.reference(torch.tensor([[*ids, *output[:-1]]])).logits[0, len(ids) - 1 :]
        scores = logits.float().log_softmax(-1)
        chosen = scores.gather(1, torch.tensor(output)[:, None])[:, 0]
        assert (chosen >= scores.amax(dim=1) - ROUNDING).all()

    def complete(self, ids: Sequence[int], count: int = TOKENS) -> tuple[list[int], Json]:
        """Return the tokens that follow a prompt, which are checked, and what it cost."""
        answer = ask(self.server, plain(ids, count))
        output = tokens(answer)
        assert len(output) == count
        self.check(ids, output)
        timings: Json = answer["timings"]
        return output, timings


@contextmanager
def serving(write: Callable[..., object], folder: Path, *flags: str) -> Iterator[Subject]:
    """Serve a small random model, which `write` writes into a folder; a test may hold its device."""
    write(folder / "model", max_position_embeddings=CONTEXT)
    with ForkedServer(folder, str(folder / "model"), *FIXED, "--hang-timeout", "0", *flags) as server:
        yield Subject(server, AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32))
