"""Check that a device computes what the model says: its steps beside a float32 run of the same weights on the CPU.

The model under test is fed the reference's own tokens, so that one difference does not make all that follows differ,
and its scores are compared at each position.  Everything here runs on the device thread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.checkpoint.stored import GroupCodes
from runtime.common.host_memory import available_memory
from runtime.loading.load import load_model
from runtime.nn.matrices.arithmetic import quantize_int4, quantize_int8
from runtime.nn.matrices.formats import KeptCodes, choose_formats
from runtime.nn.matrices.int8 import kernel_dtype
from runtime.nn.matrices.linear import Linear
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.model import Transformer
from runtime.nn.mtp import MtpModule
from runtime.nn.weights import weight_bytes
from runtime.sampling.tokens import DraftToken, SampleSpec
from runtime.selftest.findings import Figures, Mismatch, NotHere
from runtime.selftest.rates import GREEDY, placed, slot_pages
from runtime.selftest.states import copy_state, with_states
from runtime.step.device import MAX_LAYERS_AHEAD
from runtime.step.step import Segment, run_step
from runtime.step.transfer import Copy, Load, Save

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.checkpoint.open import Checkpoint
    from runtime.loading.drafters import DrafterPlan
    from runtime.loading.options import LoadOptions
    from runtime.nn.matrices.linear import WeightMatrix
    from runtime.step.step import SegmentResult


class Overheard(Linear):
    """The head, with an ear to it: keeps the scores of each step, float32 `[rows, vocab]` on the host."""

    def __init__(self, head: Linear) -> None:
        super().__init__(head)
        self.scores: list[torch.Tensor] = []

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Scores `[rows, vocab]` of states `[rows, hidden]`, of which a copy is kept."""
        scores = super().__call__(x)
        self.scores.append(scores.float().cpu())
        return scores


class Subject:
    """A model whose scores can be seen.  It shares weights, KV, states and kernels of few rows with `model`."""

    def __init__(self, model: Transformer) -> None:
        self._head = Overheard(model.weights.lm_head)
        weights = replace(model.weights, lm_head=self._head)
        self.model = Transformer(
            model.config,
            weights,
            model.kv,
            model.states,
            row_kernels=model.row_kernels,
            state_kernels=model.state_kernels,
            buffers=model.buffers,
        )

    def run(
        self, *segments: Segment, on: Transformer | None = None, cancel: Segment | None = None
    ) -> tuple[list[SegmentResult], torch.Tensor]:
        """Run a step, in whose first layer `cancel` is cancelled; what came of it, and the scores of its sampled rows.

        `on` is a module that shares this model's head.
        """
        self._head.scores.clear()
        named = with_states(self.model.buffers if on is None else None, placed(self.model, segments))
        running = run_step(on or self.model, named, lambda: 0.0)
        next(running)
        if cancel is not None:
            cancel.mark.set(lambda: 0.0)
        try:
            while True:
                next(running)
        except StopIteration as stop:
            results = list(stop.value.segments)
        if not all(result.finite for result in results):
            raise Mismatch("the model yielded numbers that are not finite")
        return results, torch.cat([torch.empty(0, self.model.config.vocab_size), *self._head.scores])

    def score(self, slot: int, tokens: Sequence[int], chunk: int, start: int = 0) -> torch.Tensor:
        """The scores after each of `tokens`, which are read into the slot in chunks from position `start` on."""
        parts = [tokens[at : at + chunk] for at in range(0, len(tokens), chunk)]
        return torch.cat([self.run(judged(slot, start + at * chunk, part))[1] for at, part in enumerate(parts)])


def judged(slot: int, start: int, tokens: Sequence[int], plain: int = 1) -> Segment:
    """A segment whose rows are all scored but the first `plain` - 1: those after them are drafts to be verified."""
    sample = SampleSpec(GREEDY, start + plain, 0)
    return Segment(slot, start, tokens, sample=sample, drafts=[DraftToken(token) for token in tokens[plain:]])


# The error of a position's scores, as a share of their size.  Rounding alone was seen to make 1.4e-6, 1.5e-3 and 1.4e-2
# of the embedded model's on an x86 CPU; a wrong row is off by about its own size.
TOLERANCES = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}
# Where two tokens score alike, either may be likeliest: if they differ by no more than so many times the error allowed.
NEAR_TIE = 4.0
# The same where weights were quantised: the reference has them in full, those of four bits expanded.
ROUNDED_WEIGHTS = 0.3
CHUNKS = (1, 7, 64)  # rows; and all at once
SLOTS = 4  # that the checks need
HOST_SHARE = 0.7  # of the free memory, that the reference may take
DRAFTS = 4

# What 8 and 4 bits may cost, in nats between the distributions, on average.  The embedded model was seen to lose 0.002
# and 0.013; other models lose more or less, but wrong kernels would make noise of any model.
MAX_DIVERGENCE = {Quantization.INT8: 0.1, Quantization.INT4: 1.0}
# A product with rounded weights, against the same weights expanded: the CPU's int8 spreads the weights before it rounds
# them, and rounds the rows as well.
ROUNDED_ROWS = 0.02


@dataclass(frozen=True, slots=True)
class Comparison:
    """Scores beside those that were expected, `[rows, vocab]` each, row i after position `first` + i.

    A mismatch names the first position that is wrong and by how much.
    """

    tolerance: float

    def __call__(self, scores: torch.Tensor, expected: torch.Tensor, first: int = 0) -> Figures:
        """Compare them; returns by how much they differ.

        Raises:
            Mismatch: by more than the tolerance, or another token is the likeliest.
        """
        scores, expected = _centred(scores), _centred(expected)
        size = expected.norm(dim=-1)
        errors = (scores - expected).norm(dim=-1) / size
        chosen, likeliest = scores.argmax(-1), expected.argmax(-1)
        lost = expected.amax(-1) - expected.gather(-1, chosen[:, None])[:, 0]  # 0 where the same token is chosen
        margins = lost / (size / math.sqrt(expected.shape[-1]))
        figures: Figures = {
            "positions": len(scores),
            "worst_error": float(errors.max()),
            "tolerance": self.tolerance,
            "near_ties": int((chosen != likeliest).sum()),
        }
        for row in range(len(scores)):
            where = f"after position {first + row}"
            if not errors[row] <= self.tolerance:
                raise Mismatch(f"{where} the scores are off by {errors[row]:.3g} of their size", figures)
            if margins[row] > NEAR_TIE * self.tolerance:
                tokens = f"token {int(chosen[row])} is chosen in place of {int(likeliest[row])}"
                raise Mismatch(f"{where} {tokens}, which scores {margins[row]:.3g} of their spread higher", figures)
        return figures


def _centred(scores: torch.Tensor) -> torch.Tensor:
    """A constant that is added to all scores changes no probability."""
    return scores - scores.mean(-1, keepdim=True)


def worst(figures: Sequence[Figures]) -> Figures:
    """Return the worst figures of several comparisons."""
    return {
        "positions": sum(int(one["positions"]) for one in figures),
        "worst_error": max(float(one["worst_error"]) for one in figures),
        "tolerance": figures[0]["tolerance"],
        "near_ties": sum(int(one["near_ties"]) for one in figures),
    }


def open_parity(
    model: Transformer,
    options: LoadOptions,
    checkpoint: Checkpoint,
    plan: DrafterPlan,
    prompt: Sequence[int],
    tokens: int,
) -> Parity:
    """The checks of a model that was loaded with `options` and `plan`; the reference is loaded here.

    Raises:
        NotHere: memory does not hold it.
    """
    if weight_bytes(checkpoint.config, torch.float32) > HOST_SHARE * available_memory():
        raise NotHere("memory does not hold the same model in float32 beside it")
    beside = replace(options, device="cpu", dtype="float32", quantize=Quantization.NONE, slots=1)
    return Parity(model, load_model(beside, checkpoint, plan), prompt, tokens)


class Parity:
    """The checks.

    Args:
        model: on the device under test, with at least `SLOTS` slots.
        reference: the same weights in float32 on the CPU, in full.
        prompt: token ids.
        tokens: decoded after it by the reference; the texts compared are the prompt and these.
    """

    def __init__(self, model: Transformer, reference: Transformer, prompt: Sequence[int], tokens: int) -> None:
        self._subject = Subject(model)
        self._reference = Subject(reference)
        rounded = any(form.startswith("int") for form in model.weights.nbytes_by_form)
        self.compare = Comparison(max(TOLERANCES[model.kv.dtype], ROUNDED_WEIGHTS if rounded else 0.0))
        self._text = self._continued(list(prompt), tokens)
        self._expected = self._reference.score(0, self._text, len(self._text))

    def _continued(self, prompt: list[int], tokens: int) -> list[int]:
        """The prompt and what the reference goes on with."""
        text, scores = list(prompt), self._reference.score(0, prompt, len(prompt))
        for _ in range(tokens):
            text.append(int(scores[-1].argmax()))
            scores = self._reference.score(0, text[-1:], 1, start=len(text) - 1)
        return text

    def chunks(self) -> Figures:
        """The text in pieces of several sizes, each row a token."""
        text = self._text
        return worst(
            [self.compare(self._subject.score(0, text, size), self._expected) for size in (*CHUNKS, len(text))]
        )

    def mixed_batch(self) -> Figures:
        """One decodes, one is in its prompt, one at the end of it, one verifies; the second leaves, or stays."""
        text, expected, figures = self._text, self._expected, []
        third, half, rest = len(text) // 3, len(text) // 2, len(text) - DRAFTS - 1
        for leaves in (False, True):
            for slot, end in ((0, half), (1, third), (3, rest)):
                self._subject.score(slot, text[:end], end)
            decoding = judged(0, half, text[half : half + 1])
            reading = Segment(1, third, text[third:half])
            ending = judged(2, 0, text[:half], plain=half)
            verifying = judged(3, rest, text[rest:])
            batch = (decoding, reading, ending, verifying)
            results, scores = self._subject.run(*batch, cancel=reading if leaves else None)
            if [result.computed for result in results] != [True, not leaves, True, True]:
                raise Mismatch("a cancel in the first layer has dropped the wrong rows, or none")
            rows = [half, half - 1, *range(rest, len(text))]
            figures.append(self.compare(scores, expected[rows]))
            on = third if leaves else half
            figures.append(self.compare(self._subject.score(1, text[on:], 16, start=on), expected[on:], on))
        return worst(figures)

    def trim_and_resume(self) -> Figures:
        """A slot goes on from the middle of what it holds, after other tokens were there."""
        text, middle = self._text, len(self._text) // 2
        self._subject.score(0, text[:middle], 16)
        self._subject.score(0, text[::-1][: len(text) - middle], 16, start=middle)
        kept = (middle - 5) // 16 * 16
        return self.compare(self._subject.score(0, text[kept:], 16, start=kept), self._expected[kept:], kept)

    def moved_kv(self) -> Figures:
        """Out of a slot and into another, by way of host memory and directly: bit for bit, and then gone on from."""
        model, text, middle = self._subject.model, self._text, len(self._text) // 2
        self._subject.score(0, text[:middle], middle)
        first, second, third = (slot_pages(model, slot) for slot in range(3))
        saved = model.transfer(Save(0, 0, middle, pages=first))
        assert saved is not None
        model.transfer(Load(1, 0, saved, pages=second))
        model.transfer(Copy(1, 2, 0, middle, source_pages=second, pages=third))
        figures = []
        for slot, pages in ((1, second), (2, third)):
            copy_state(model.buffers, slot - 1, slot, middle)
            again = model.transfer(Save(slot, 0, middle, pages=pages))
            assert again is not None
            if not torch.equal(again, saved):
                raise Mismatch(f"KV that was moved to slot {slot} is not what it was")
            scores = self._subject.score(slot, text[middle:], 16, start=middle)
            figures.append(self.compare(scores, self._expected[middle:], middle))
        return worst(figures)

    def verify(self) -> Figures:
        """Drafts that are right, and drafts of which one is wrong, against the same tokens one at a time."""
        text, start = self._text, len(self._text) // 2
        plain = self._subject.score(0, text[: start + DRAFTS + 1], 1)[start:]
        figures: list[Figures] = []
        for wrong in (None, *range(1, DRAFTS + 1)):
            rows = text[start : start + DRAFTS + 1]
            if wrong is not None:
                rows[wrong] = (rows[wrong] + 1) % self._subject.model.config.vocab_size
            (result,), scores = self._subject.run(judged(0, start, rows))
            until = wrong or DRAFTS + 1  # a row after a wrong draft says something else
            figures.append(self.compare(scores[:until], plain[:until], start))
            chosen = scores.argmax(-1).tolist()
            said = [token.token_id for token in result.tokens]
            agreed = next((i for i in range(DRAFTS) if chosen[i] != rows[i + 1]), DRAFTS)
            if said != chosen[: agreed + 1]:
                raise Mismatch(f"drafts {rows[1:]} were verified as {said}; the scores say {chosen[: agreed + 1]}")
        return worst(figures)

    def module(self, plan: DrafterPlan) -> Figures:
        """The drafting module after the same text, on both devices: the first draft, and those chained to it."""
        subject, reference = (plan.load(side.model) for side in (self._subject, self._reference))
        if not isinstance(subject, MtpModule) or not isinstance(reference, MtpModule):
            raise NotHere("the model has no module for multi-token prediction")
        text, figures = self._text, []
        for side in (self._subject, self._reference):
            side.score(0, text, len(text))
        unread, start = text[1:], 1
        for _ in range(DRAFTS):
            sample = SampleSpec(GREEDY, start + len(unread), 0)
            drafting = Segment(0, start, unread, sample=sample, first=1)
            scores = self._subject.run(drafting, on=subject)[1]
            expected = self._reference.run(drafting, on=reference)[1]
            start += len(unread)
            figures.append(self.compare(scores, expected, start - 1))
            unread = [int(expected[0].argmax())]
        return worst(figures)

    def quantised(self, model: Transformer) -> Figures:
        """Return how far the same model with fewer bits a weight is from the reference."""
        scores = Subject(model).score(0, self._text, len(self._text))
        expected = self._expected.log_softmax(-1)
        divergence = F.kl_div(scores.log_softmax(-1), expected, log_target=True, reduction="none").sum(-1).mean()
        agreement = (scores.argmax(-1) == expected.argmax(-1)).float().mean()
        return {"divergence_nats": float(divergence), "agreement": float(agreement), "positions": len(scores)}


def cancel_limits(model: Transformer) -> tuple[int, float]:
    """Return how many layers may end after a cancel on the model's device, and how log-probabilities may differ.

    A device that queues may have been given `MAX_LAYERS_AHEAD` layers when the cancel comes.
    """
    layers = 1 if model.weights.embedding.device.type == "cpu" else MAX_LAYERS_AHEAD
    return layers, NEAR_TIE * TOLERANCES[model.kv.dtype]


def check_products(quantization: Quantization, model: Transformer) -> Figures:
    """Products in the quantised form of the model's device, against float32 ones of the same weights, expanded."""
    device, dtype = model.weights.embedding.device, model.kv.dtype
    weight = torch.randn(256, 256, generator=torch.Generator().manual_seed(0)).to(dtype)
    form = choose_formats(quantization, device, dtype).layers
    if quantization is Quantization.INT8:
        quantised, scales = quantize_int8(weight)
        expanded = quantised.float() * scales[:, None]
    else:
        expanded = quantize_int4(weight, kernel_dtype(device, dtype)).expand()
    return _compare_products(form(weight.to(device), None), expanded, model)


def check_codes(group: int, model: Transformer) -> Figures:
    """Products with codes of four bits by groups of `group`, as files have them, against the same, expanded."""
    device, dtype = model.weights.embedding.device, model.kv.dtype
    generator = torch.Generator().manual_seed(group)
    codes = GroupCodes(
        torch.randint(0, 16, (256, 512), generator=generator, dtype=torch.uint8),
        torch.rand(256, 512 // group, generator=generator),
        torch.randn(256, 512 // group, generator=generator),
        group,
    )
    return _compare_products(KeptCodes(device, dtype)(codes, None), codes.expand(), model)


def _compare_products(product: WeightMatrix, expanded: torch.Tensor, model: Transformer) -> Figures:
    """Multiply few rows and many with a matrix, and with what its bits stand for, float32 `[out, in]`."""
    device, dtype = model.weights.embedding.device, model.kv.dtype
    generator = torch.Generator().manual_seed(1)
    tolerance, error = max(ROUNDED_ROWS, TOLERANCES[dtype]), 0.0
    for rows in (1, 8, 64):
        x = torch.randn(rows, expanded.shape[1], generator=generator).to(dtype)
        expected = x.float() @ expanded.T
        y = product(x.to(device)).float().cpu()
        error = max(error, float((y - expected).norm() / expected.norm()))
    figures: Figures = {"form": type(product).__name__, "worst_error": error, "tolerance": tolerance}
    if not error <= tolerance:
        raise Mismatch(f"products are off by {error:.3g} of their size", figures)
    return figures


def check_quantised(
    parity: Parity, options: LoadOptions, checkpoint: Checkpoint, quantization: Quantization
) -> Figures:
    """Load the model with fewer bits, and compare what it says with the reference."""
    figures = parity.quantised(load_model(replace(options, quantize=quantization), checkpoint))
    if not float(figures["divergence_nats"]) <= MAX_DIVERGENCE[quantization]:
        raise Mismatch(f"the distributions differ by more than {MAX_DIVERGENCE[quantization]} nats", figures)
    return figures
