"""Steps of small models that use every parameter of sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from runtime.sampling.params import SamplingParams
from runtime.sampling.sampler import SampledRow
from runtime.sampling.tokens import AllowedTokens, DraftToken, SampleSpec
from runtime.step.step import Segment
from tests.models.sampler_driver import sample, verify
from tests.models.step_driver import CPU, pages_of

# All biases; normed heads; a window; Gemma's norms, scales, caps and activation; other norms of heads; a parallel MLP;
# heads of which a part is rotated, or that are normed after it; queries scaled by their position; experts; sinks; a
# latent; recurrent layers; experts beside an MLP and a norm of values; inputs of layers and shared KV; channels that
# decay each by itself; streams of hidden states.
STEP_FAMILIES = (
    "llama-bias",
    "qwen3-tied",
    "mistral",
    "gemma2",
    "olmo2",
    "cohere-qk-norm",
    "glm",
    "hunyuan",
    "ministral3",
    "qwen3-moe",
    "gpt-oss",
    "deepseek3-plain",
    "deepseek2",
    "deepseek3",
    "lfm2",
    "gemma4-experts",
    "gemma4-layer-inputs",
    "qwen3.5",
    "granite-hybrid",
    "kimi-linear",
    "gemma3n",
)

NOT_ON_MPS = {torch.float64, torch.complex128}


class Recorded(NamedTuple):
    """One operation as the dispatcher saw it."""

    name: str  # as in native_functions.yaml, without the namespace
    dtypes: frozenset[torch.dtype]  # of all tensors that went in or came out


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers every operation below autograd: composite ones are seen as their parts."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[Recorded] = set()

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> object:
        """Run an operation and remember it."""
        result = func(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, torch.Tensor)]
        self.seen.add(Recorded(func.name().removeprefix("aten::"), frozenset(tensor.dtype for tensor in tensors)))  # type: ignore[no-untyped-call]
        return result


EVERYTHING = SamplingParams(
    temperature=0.8,
    top_k=20,
    top_p=0.9,
    min_p=0.05,
    repetition_penalty=1.2,
    presence_penalty=0.5,
    frequency_penalty=0.5,
    logit_bias=((5, 2.0),),
    min_tokens=4,
    seed=7,
    logprobs=5,
)


def whole_step() -> list[Segment]:
    """A prefill chunk that goes on, one that ends its prompt, and decoding with everything that sampling has."""
    return [
        Segment(0, 0, range(20)),
        Segment(1, 0, range(30), sample=SampleSpec(SamplingParams(temperature=0), 30, 0)),
        Segment(2, 0, [1], sample=SampleSpec(SamplingParams(seed=1), 1, 0)),
        Segment(3, 0, [9], sample=SampleSpec(EVERYTHING, 1, 1, context=(9,), end_ids=(3, 4))),
    ]


def masked_step() -> list[Segment]:
    """Rows to which a grammar allows few tokens: a prompt's last, a draft's and the one behind it; and one without."""
    mask = AllowedTokens([3, 4, 9], 2**20)
    several, pages = SampleSpec(EVERYTHING, 1, 1, (3,), masks=(mask, mask)), [pages_of(slot, 128) for slot in range(4)]
    first = SampleSpec(SamplingParams(temperature=0), 30, 0, masks=(mask,))
    return [
        Segment(1, 0, range(30), sample=first, pages=pages[1]),
        Segment(2, 0, [3, 4], sample=several, drafts=[DraftToken(4)], pages=pages[2]),
        Segment(3, 0, [9], sample=SampleSpec(SamplingParams(seed=1), 1, 1), pages=pages[3]),
    ]


def verify_drafts(device: torch.device = CPU) -> list[SampledRow]:
    """A draft of each kind, and a row without: what the target's logits become."""
    logits = torch.ones(4, 64, device=device)
    drafting = SampleSpec(SamplingParams(seed=1), 1, 0), SampleSpec(EVERYTHING, 1, 1, context=(9,), end_ids=(3, 4))
    drawn = [one.token for one in sample(logits[:2], [replace(spec, for_rejection=True) for spec in drafting])]
    drafts = [DraftToken(7), *(DraftToken(token.token_id, token.distribution) for token in drawn), None]
    specs = [SampleSpec(SamplingParams(temperature=0), 1, 0), *drafting, drafting[1].after([drawn[1].token_id])]
    return verify(logits, specs, drafts)
