"""Steps of few rows on a fake MPS, by kernels of attention and of recurrent layers: what is launched, read and sent.

Of each launch the arguments are looked at: how many, their types, devices and gaps, by what the kernel's source says.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from runtime.checkpoint.config import ModelConfig
from runtime.checkpoint.mtp_layout import DEEPSEEK
from runtime.devices.mps.rows import MetalRows
from runtime.devices.mps.states import MetalStates, compile_states
from runtime.devices.single_rows.rows import RowTable, Scoring
from runtime.kv.pages import PageTable
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.model import HiddenStates, Transformer
from runtime.nn.mtp import MtpModule, MtpWeights
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import DraftToken, SampleSpec
from runtime.selftest import single_rows
from runtime.selftest.findings import NotHere
from runtime.selftest.readbacks import expected_reads
from runtime.selftest.single_rows import check_few_states, check_single_rows
from runtime.step.step import Segment
from tests.fakes.devices.mps import MPS, fake_mps
from tests.fakes.weights import EmptySource
from tests.scenarios.devices.on_mps import on_mps, reads_of
from tests.scenarios.devices.steps import EVERYTHING, whole_step

SPEC = SampleSpec(SamplingParams(seed=1), 21, 0)


def few_rows() -> list[Segment]:
    """One that verifies a draft, one that decodes, and one that asks for all that sampling has."""
    return [
        Segment(0, 20, [3, 4], sample=SPEC, drafts=[DraftToken(4)], pages=PageTable((0, 1))),
        Segment(2, 20, [1], sample=SPEC, pages=PageTable((4, 5))),
        Segment(
            3, 90, [9], sample=SampleSpec(EVERYTHING, 91, 1, context=(9,), end_ids=(3, 4)), pages=PageTable((6, 7))
        ),
    ]


def with_kernels(config: ModelConfig, dtype: torch.dtype) -> dict[str, Any]:
    """Return what a model on the fake device is given besides."""
    return {"row_kernels": MetalRows(torch.mps.compile_shader, dtype, config.head_dim)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("family", ["embedded", "llama-bias", "qwen3-tied", "mistral", "gemma2", "glm", "gpt-oss"])
def test_single_rows_are_written_and_attend_in_a_launch_each(
    configs: dict[str, ModelConfig], family: str, dtype: torch.dtype
) -> None:
    """And one that joins splits, where a sequence is long; nothing more is read or sent."""
    config = configs[family]
    with fake_mps() as traffic:
        model = on_mps(config, dtype, Quantization.NONE, Transformer, **with_kernels(config, dtype))
        own = ["tolist"] * expected_reads(config)
        assert reads_of(traffic, model, few_rows()) == own
        attention = [kernel for kernel in traffic.launched if kernel != "join_splits"]
        assert attention == ["write_rows", "attend_rows"] * config.num_layers
        assert traffic.launched.count("join_splits") == sum(window is None for window in config.window)
        assert reads_of(traffic, model, few_rows(), cancelled=1) == own
        assert traffic.launched.count("attend_rows") == config.num_layers
        assert reads_of(traffic, model, few_rows()[:1]) == own
        assert traffic.launched == ["write_rows", "attend_rows"] * config.num_layers
        assert reads_of(traffic, model, whole_step()) == own
        assert not traffic.launched, "a prompt attends by segments"


@pytest.mark.parametrize(
    ("family", "rule"),
    [
        ("lfm2", []),
        ("qwen3.5", ["delta_rows"]),
        ("granite-hybrid", ["state_space_rows"]),
    ],
)
def test_recurrent_layers_are_a_launch_for_the_convolution_and_one_for_the_rule(
    configs: dict[str, ModelConfig], family: str, rule: list[str]
) -> None:
    config, dtype = configs[family], torch.bfloat16
    recurrent = sum(own is not None for own in config.recurrent)
    with fake_mps() as traffic:
        model = on_mps(config, dtype, Quantization.NONE, Transformer, state_kernels=compile_states(config, dtype))
        own = ["tolist"] * expected_reads(config)
        assert reads_of(traffic, model, few_rows()) == own
        assert traffic.launched == ["convolve_rows", *rule] * recurrent
        assert reads_of(traffic, model, few_rows(), cancelled=1) == own
        assert traffic.launched == ["convolve_rows", *rule] * recurrent
        assert reads_of(traffic, model, whole_step()) == own
        assert not traffic.launched, "a prompt's are computed by PyTorch"


def test_a_module_drafts_by_its_target_s_kernels(configs: dict[str, ModelConfig]) -> None:
    config, dtype = configs["embedded"], torch.bfloat16
    with fake_mps() as traffic:
        states = HiddenStates(4 * 128, config.hidden_size, MPS, dtype)
        target = on_mps(config, dtype, Quantization.NONE, Transformer, states, **with_kernels(config, dtype))
        module = MtpModule(config, MtpWeights(EmptySource(MPS, dtype), config, DEEPSEEK), target, states)
        assert reads_of(traffic, module, [Segment(0, 21, [5], sample=SPEC, first=1)]) == ["tolist"]
        assert traffic.launched == ["write_rows", "attend_rows"]


def test_the_doctor_compiles_them_where_the_model_does_without(
    configs: dict[str, ModelConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have been wrong when it was loaded: then what was wrong is to be in the report."""
    checked = []

    def check_rows(kernels: object, *about: object) -> float:
        checked.append((type(kernels), *about))
        return 0.25

    monkeypatch.setattr(single_rows, "check_rows", check_rows)
    with fake_mps():
        config = configs["embedded"]
        assert check_single_rows(on_mps(config, torch.bfloat16)) == {"worst_error": 0.25}
        assert checked == [(MetalRows, MPS, torch.bfloat16, config.head_dim)]
        with pytest.raises(NotHere, match="no such kernels for latent attention"):
            check_single_rows(on_mps(configs["deepseek3-plain"], torch.bfloat16))
        with pytest.raises(NotHere, match="no such kernels for layers of other sizes each"):
            check_single_rows(on_mps(configs["gemma4-experts"], torch.bfloat16))


def test_the_doctor_compiles_those_of_recurrent_layers_likewise(
    configs: dict[str, ModelConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = []

    def check_states(kernels: object, *about: object) -> float:
        checked.append((type(kernels), *about))
        return 0.25

    monkeypatch.setattr(single_rows, "check_states", check_states)
    with fake_mps():
        config = configs["qwen3.5"]
        assert check_few_states(on_mps(config, torch.bfloat16)) == {"worst_error": 0.25}
        assert checked == [(MetalStates, config, MPS, torch.bfloat16)]
        with pytest.raises(NotHere, match="no layer is recurrent"):
            check_few_states(on_mps(configs["embedded"], torch.bfloat16))


@pytest.mark.parametrize(
    ("query", "ring", "says"),
    [
        (lambda: torch.empty(2, 6, 8, device=MPS).half(), None, "query of attend_rows is of torch.float16"),
        (lambda: torch.empty(2, 6, 8), None, "query of attend_rows is on cpu"),
        (lambda: torch.empty(2, 6, 16, device=MPS)[..., ::2], None, "query of attend_rows has gaps"),
        (lambda: torch.empty(2, 6, 8, device=MPS), 16.0, "ring of attend_rows is of <class 'float'>"),
    ],
)
def test_a_launch_that_is_wrong_is_noticed(query: Any, ring: Any, says: str) -> None:  # noqa: ANN401
    with fake_mps():
        kernels = MetalRows(torch.mps.compile_shader, torch.float32, 8)
        table = RowTable(torch.zeros(5, 2, device=MPS, dtype=torch.int64), 5)
        layer = torch.empty(2, 3, 2, 16, 8, device=MPS)
        with pytest.raises(AssertionError, match=says):
            kernels.attend(query(), 2, layer, ring or 16, table, Scoring(0.2, None, None, None))
