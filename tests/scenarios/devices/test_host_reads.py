"""A step stays on its device, and the host reads from it once.

Steps are run on a fake MPS (`tests/fakes/devices/mps.py`): nothing of the host's meets anything of the device's, the
host reads from the device once a step, and what it sends there is sent before the first layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from runtime.checkpoint.config import ModelConfig
from runtime.checkpoint.mtp_layout import DEEPSEEK
from runtime.nn.draft_model import DraftModel
from runtime.nn.layers.batch import Batch
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.model import HiddenStates, Transformer
from runtime.nn.mtp import MtpModule, MtpWeights
from runtime.sampling.batch import SamplingBatch
from runtime.sampling.masks import MaskPenalties
from runtime.sampling.params import SamplingParams
from runtime.sampling.staging import StagingBuffer
from runtime.sampling.tokens import DraftToken, SampleSpec
from runtime.selftest.findings import Mismatch
from runtime.selftest.readbacks import check_readbacks, expected_reads
from runtime.step.step import Segment, SegmentOutput
from runtime.step.transfer import Copy, Load, Save
from tests.fakes.devices.mps import MPS, fake_mps
from tests.fakes.weights import EmptySource
from tests.models.layers.recurrent import prepare_all
from tests.models.step_driver import CPU, pages_of, run
from tests.scenarios.devices.on_mps import Watched, on_mps, reads_of
from tests.scenarios.devices.steps import (
    EVERYTHING,
    NOT_ON_MPS,
    Recorder,
    masked_step,
    verify_drafts,
    whole_step,
)

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)


@pytest.mark.parametrize(
    ("family", "quantization", "dtype"),
    [
        *(("embedded", bits, dtype) for bits in Quantization for dtype in (torch.bfloat16, torch.float32)),
        *(
            (family, Quantization.NONE, torch.float16)
            for family in ("embedded", "llama-bias", "qwen3-tied", "mistral", "deepseek3-plain", "lfm2", "qwen3.5")
        ),
    ],
    ids=str,
)
def test_a_step_stays_on_its_device_and_is_read_once(
    configs: dict[str, ModelConfig], family: str, quantization: Quantization, dtype: torch.dtype
) -> None:
    """With every parameter of sampling; a cancelled row; only prompts; and drafts that are verified."""
    verify = Segment(0, 20, [3, 4], sample=SampleSpec(SamplingParams(seed=1), 21, 0), drafts=[DraftToken(4)])
    with fake_mps() as traffic:
        model = on_mps(configs[family], dtype, quantization)
        assert reads_of(traffic, model, whole_step()) == ["tolist"]
        assert reads_of(traffic, model, whole_step(), cancelled=2) == ["tolist"]
        assert reads_of(traffic, model, whole_step()[:1]) == ["tolist"]
        assert reads_of(traffic, model, [verify, *whole_step()[1:]]) == ["tolist"]


@DTYPES
def test_masks_of_grammars_are_sent_behind_the_layers_in_one_copy_and_nothing_is_read_for_them(
    configs: dict[str, ModelConfig], dtype: torch.dtype
) -> None:
    """They are computed while the layers run; no shape depends on how many tokens they allow."""
    with fake_mps() as traffic:
        watched = Watched(on_mps(configs["embedded"], dtype), traffic)
        with Recorder() as recorder:
            results = run(watched, masked_step()).segments
        assert all(result.computed for result in results)
        assert traffic.read == ["tolist"]
        assert len(traffic.sent) == 1
        assert [operation for operation in recorder.seen if operation.dtypes & NOT_ON_MPS] == []
        traffic.clear()
        run(watched, masked_step())
        assert not traffic.sent  # two rows had one mask, and one that has come twice is there already


@pytest.mark.parametrize("quantization", [Quantization.NONE, Quantization.INT8])
def test_the_host_reads_once_more_in_each_layer_with_experts(
    configs: dict[str, ModelConfig], quantization: Quantization
) -> None:
    """Which of them are met; nothing is sent there, and nothing more is read where a row was dropped."""
    config = configs["qwen3-moe"]
    assert [experts is not None for experts in config.experts] == [True, False, True]
    with fake_mps() as traffic:
        model = on_mps(config, torch.bfloat16, quantization)
        assert expected_reads(config) == 3
        assert reads_of(traffic, model, whole_step()) == ["tolist"] * 3
        assert reads_of(traffic, model, whole_step(), cancelled=2) == ["tolist"] * 3
        assert reads_of(traffic, model, whole_step()[2:3]) == ["tolist"] * 3


@pytest.mark.parametrize("params", [SamplingParams(seed=1), EVERYTHING], ids=["plain", "everything"])
@DTYPES
def test_drafts_stay_on_their_device_and_are_read_once(
    configs: dict[str, ModelConfig], dtype: torch.dtype, params: SamplingParams
) -> None:
    """By a module, twice, and by a model of fewer ids; each is then verified by rejection sampling."""
    config = configs["embedded"]
    spec = SampleSpec(params, 21, 1, context=range(21), end_ids=(3, 4))
    with fake_mps() as traffic:
        states = HiddenStates(4 * 128, config.hidden_size, MPS, dtype)
        target = on_mps(config, dtype, Quantization.NONE, Transformer, states)
        module = MtpModule(config, MtpWeights(EmptySource(MPS, dtype), config, DEEPSEEK), target, states)
        model = on_mps(replace(config, vocab_size=4000), dtype, Quantization.NONE, DraftModel, config.vocab_size)
        assert reads_of(traffic, target, [Segment(0, 0, range(20))]) == ["tolist"]
        for drafter, first in ((module, 1), (model, 0)):
            for start, tokens in ((first, range(first, 21)), (21, [5])):
                drafting = Segment(0, start, tokens, sample=replace(spec, for_rejection=True), first=first)
                assert reads_of(traffic, drafter, [drafting]) == ["tolist"]
            (draft,) = run(drafter, [drafting]).segments[0].tokens
            assert draft.distribution is not None
            assert draft.distribution.device == MPS
            proposal = DraftToken(draft.token_id, draft.distribution)
            verifying = Segment(0, 20, [20, draft.token_id], sample=spec, drafts=[proposal])
            assert reads_of(traffic, target, [verifying]) == ["tolist"]


@DTYPES
def test_recurrences_stay_on_their_device_and_nothing_is_read_or_sent_for_them(dtype: torch.dtype) -> None:
    with fake_mps() as traffic:
        recurrences = prepare_all(MPS, dtype)
        traffic.clear()
        for recurrence in recurrences:
            recurrence()
        assert traffic.read == traffic.sent == []


def test_verdicts_stay_on_their_device_and_are_read_once() -> None:
    with fake_mps() as traffic:
        verify_drafts(MPS)
        assert traffic.read == ["tolist", "tolist"]  # the drafts, and the verdicts
        assert len(traffic.sent) == 6  # numbers of two types, and the masks' table, which a model sends once


@DTYPES
def test_kv_moves_between_host_and_device(configs: dict[str, ModelConfig], dtype: torch.dtype) -> None:
    """A layer at a time on its way out; nothing is read on its way in, nor from slot to slot."""
    with fake_mps() as traffic:
        model = on_mps(configs["mistral"], dtype)
        first, second, third = (pages_of(slot, 128) for slot in range(3))
        saved = model.transfer(Save(0, 0, 64, pages=first))
        assert saved is not None
        assert saved.device == CPU
        assert traffic.read == ["aten::copy_"] * model.num_layers
        traffic.clear()
        model.transfer(Load(1, 0, saved, pages=second))
        model.transfer(Copy(1, 2, 0, 64, source_pages=second, pages=third))
        assert traffic.read == []


class IndexOnTheHost(Transformer):
    """Looks embeddings up by ids that are on the host."""

    def embed(self, token_ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Embed ids of the host."""
        return super().embed(token_ids.cpu(), places)


class MaskOnTheHost(Transformer):
    """Masks attention by a tensor on the host."""

    def build_mask(self, segments: Sequence[Segment], window: int | None, group: int) -> torch.Tensor | None:
        """Build the mask on the host."""
        mask = super().build_mask(segments, window, group)
        return None if mask is None else mask.cpu()


class RowsOnTheHost(Transformer):
    """Chooses the rows to be sampled by numbers on the host."""

    def finish(self, batch: Batch) -> list[SegmentOutput]:
        """Finish with rows of the host."""
        batch.sampled_rows = batch.sampled_rows.cpu()
        return super().finish(batch)


class Mask(Transformer):
    """Chooses rows by a mask, whose size the host must read."""

    def finish(self, batch: Batch) -> list[SegmentOutput]:
        """Finish with the rows of a mask."""
        batch.sampled_rows = batch.sampled_rows[batch.sampled_rows > 3]
        return super().finish(batch)


class Late(Transformer):
    """Sends the parameters of sampling after the layers."""

    def finish(self, batch: Batch) -> list[SegmentOutput]:
        """Send them, and finish."""
        staging = StagingBuffer()
        penalties = MaskPenalties(self._device)
        batch.sampling = SamplingBatch.stage(batch.sampling.specs, batch.sampling.drafts, staging, penalties)
        staging.send(self._device)
        return super().finish(batch)


class LateByList(Transformer):
    """Sends a list after the layers."""

    def compute_logits(self, states: torch.Tensor) -> torch.Tensor:
        """Divide by a list."""
        return super().compute_logits(states) / torch.tensor([[1.0]] * len(states), device=states.device)


class Piecemeal(Transformer):
    """Sends the rows to be sampled by themselves."""

    def begin(self, segments: Sequence[Segment]) -> Batch:
        """Begin, and send the rows again."""
        batch = super().begin(segments)
        batch.sampled_rows = torch.tensor([4] * len(batch.sampled_rows), device=self._device)
        return batch


class Nosy(Transformer):
    """Reads a number from the device in the middle of a step."""

    def compute_logits(self, states: torch.Tensor) -> torch.Tensor:
        """Look at the states."""
        return super().compute_logits(states) * (2.0 if states.sum().item() else 1.0)


class Exact(Transformer):
    """Computes logits in float64, which MPS lacks."""

    def compute_logits(self, states: torch.Tensor) -> torch.Tensor:
        """Compute them in float64."""
        return super().compute_logits(states).double().float()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (IndexOnTheHost, "at least two devices, mps:0 and cpu"),
        (MaskOnTheHost, "at least two devices, mps:0 and cpu"),
        (RowsOnTheHost, "an index on cpu is used on a tensor on mps:0"),
        (Mask, "only the device knows"),
        (Nosy, "item"),
        (Exact, "float64"),
        (Late, "sent behind the layers"),
        (LateByList, "sent behind the layers"),
        (Piecemeal, "sent in pieces"),
    ],
)
def test_a_model_that_is_wrong_is_noticed(configs: dict[str, ModelConfig], wrong: type[Transformer], says: str) -> None:
    with fake_mps() as traffic:
        model = on_mps(configs["mistral"], torch.bfloat16, Quantization.NONE, wrong)
        with pytest.raises((AssertionError, RuntimeError), match=says):
            assert reads_of(traffic, model, whole_step()) == ["tolist"]


class Copies(Transformer):
    """Copies states to the host, in two ways."""

    def compute_logits(self, states: torch.Tensor) -> torch.Tensor:
        """Copy the states."""
        assert states.cpu().shape == states.to("cpu").shape
        return super().compute_logits(states)


def test_the_doctor_counts_what_is_read(configs: dict[str, ModelConfig]) -> None:
    """By what a real device would see: here the fake one answers for the step's own read."""
    with fake_mps():
        figures = check_readbacks(on_mps(configs["mistral"], torch.bfloat16))
        assert figures["reads_per_step"] == 0
        with pytest.raises(Mismatch, match="reads from the device by aten::") as caught:
            check_readbacks(on_mps(configs["mistral"], torch.bfloat16, Quantization.NONE, Copies))
    assert caught.value.figures["reads_per_step"] == 2
