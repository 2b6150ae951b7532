"""Apple's GPU without one: every operation of a step has a kernel there, and no tensor is of a type that it lacks.

A step is run on the CPU and each operation that reaches PyTorch's dispatcher is recorded.  Whether MPS has it is looked
up in the table from which PyTorch's own dispatcher is generated, and which torch ships (`torchgen`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torchgen  # type: ignore[import-untyped]
from torch._subclasses.fake_tensor import FakeTensorMode
from torchgen.gen import parse_native_yaml  # type: ignore[import-untyped]
from torchgen.model import DispatchKey  # type: ignore[import-untyped]
from transformers import LlamaConfig, LlamaForCausalLM

from runtime.loading.served import Proposer
from runtime.nn.matrices import formats, linear
from runtime.nn.matrices.arithmetic import quantize_int4
from runtime.nn.matrices.int4 import WeightInt4
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.model import Transformer
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import DraftToken, SampleSpec
from runtime.step.step import Segment
from tests.models.checkpoints import FAMILIES
from tests.models.families.writing import VOCAB_SIZE, write_checkpoint
from tests.models.layers.recurrent import prepare_all
from tests.models.mtp_checkpoints import write_deepseek, write_mimo
from tests.models.speculation_driver import open_pair
from tests.models.step_driver import CPU, open_transformer, run
from tests.scenarios.devices.steps import (
    NOT_ON_MPS,
    STEP_FAMILIES,
    Recorded,
    Recorder,
    masked_step,
    verify_drafts,
    whole_step,
)

# What `scaled_dot_product_attention` becomes on each of the two devices.
ON_MPS_INSTEAD = {
    "_scaled_dot_product_flash_attention_for_cpu": "_scaled_dot_product_attention_math_for_mps",
}

# Composite operations move no data, or are made of these, which the recorder does not see (PyTorch's sources).
VIEWS = {
    "_unsafe_view",
    "alias",
    "expand",
    "lift_fresh",
    "permute",
    "select.int",
    "slice.Tensor",
    "split_with_sizes",
    "split.Tensor",
    "squeeze.dim",
    "t",
    "transpose.int",
    "unbind.int",
    "unsqueeze",
}
PARTS = {
    "_to_copy": ["_copy_from"],
    "abs": ["abs.out"],
    "add_.Scalar": ["add_.Tensor"],
    "arange": ["arange.start_out"],
    "arange.start": ["arange.start_out"],
    "bitwise_and.Scalar": ["bitwise_and.Tensor"],
    "clone": ["empty.memory_format", "_copy_from"],
    "constant_pad_nd": ["empty.memory_format", "fill_.Scalar", "_copy_from"],
    "copy_": ["_copy_from"],
    "embedding": ["index_select"],
    "empty_like": ["empty.memory_format"],
    "index_put_": ["_index_put_impl_"],
    "masked_fill.Scalar": ["masked_fill_.Scalar"],
    "native_layer_norm": ["native_layer_norm"],  # which MPS has itself
    "ones": ["empty.memory_format", "fill_.Scalar"],
    "ones_like": ["empty.memory_format", "fill_.Scalar"],
    "repeat": ["empty.memory_format", "_copy_from"],
    "sort": ["sort.values_stable"],
    "stack": ["cat"],
    "zeros": ["empty.memory_format", "zero_"],
    "zeros_like": ["empty.memory_format", "zero_"],
}


class Table:
    """native_functions.yaml: which operations there are, and what runs each of them on MPS."""

    def __init__(self) -> None:
        folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
        parsed = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
        self._functions = {str(function.func.name): function for function in parsed.native_functions}
        self._mps = parsed.backend_indices[DispatchKey.MPS]

    def has_kernel(self, name: str) -> bool:
        """Return whether MPS has a kernel of its own; a structured operation has that of its out variant."""
        function = self._functions[name]
        if function.structured_delegate is not None:
            function = self._functions[str(function.structured_delegate)]
        return bool(self._mps.has_kernel(function))

    def is_composite(self, name: str) -> bool:
        """Return whether it is made of other operations on every device."""
        return bool(self._functions[name].has_composite_kernel)


@pytest.fixture(scope="module")
def table() -> Table:
    return Table()


def _pairs(folder: Path, dtype: str) -> Iterator[tuple[Transformer, Transformer]]:
    """Targets with a drafter of each kind: a module after either published form, and a model of fewer ids."""
    for name, write in (("deepseek", write_deepseek), ("mimo", write_mimo)):
        write(folder / name)
        yield open_slots(open_pair(folder / name, Proposer.MTP, dtype=dtype))
    for name, ids in (("padded", VOCAB_SIZE + 4), ("draft", VOCAB_SIZE)):
        write_checkpoint(folder / name, LlamaForCausalLM, LlamaConfig, seed=1, vocab_size=ids)
    yield open_slots(open_pair(folder / "padded", Proposer.DRAFT, draft=folder / "draft", dtype=dtype))


def open_slots(pair: tuple[Transformer, Transformer | None]) -> tuple[Transformer, Transformer]:
    target, drafter = pair
    assert drafter is not None
    return target, drafter


def draft_round(target: Transformer, drafter: Transformer) -> None:
    """A prompt is read by both, a token drafted and verified."""
    assert run(target, [Segment(0, 0, range(20))]).segments[0].computed
    spec = SampleSpec(SamplingParams(seed=1), 21, 0)
    drafting = Segment(0, 1, range(1, 21), sample=replace(spec, for_rejection=True), first=1)
    (draft,) = run(drafter, [drafting]).segments[0].tokens
    proposal = DraftToken(draft.token_id, draft.distribution)
    assert run(target, [Segment(0, 20, [20, draft.token_id], sample=spec, drafts=[proposal])]).segments[0].computed


@pytest.fixture(scope="module")
def as_elsewhere() -> Iterator[None]:
    """Weights are kept as on a device that is not the CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "has_onednn", lambda device: False)
        patch.setattr(formats, "has_integer_products", lambda device: False)
        yield


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16, torch.float16], ids=str)
def recorded(
    request: pytest.FixtureRequest, as_elsewhere: None, tmp_path_factory: pytest.TempPathFactory
) -> set[Recorded]:
    """Return what steps of families with all parts ask for, those of every drafter, int8's, and recurrences."""
    seen: set[Recorded] = set()
    for family in STEP_FAMILIES:
        folder = tmp_path_factory.mktemp(family)
        FAMILIES[family](folder)
        for quantization in (Quantization.NONE, Quantization.INT8):
            chosen = formats.choose_formats(quantization, CPU, request.param)
            model = open_transformer(folder, dtype=request.param, formats=chosen)
            segments = whole_step()
            with torch.no_grad(), Recorder() as recorder:
                assert run(model, segments, {1: segments[2:3]}).layers_run == model.num_layers
                assert all(result.computed for result in run(model, whole_step()).segments)
                assert all(result.computed for result in run(model, masked_step()).segments)
            seen |= recorder.seen
        with torch.no_grad(), Recorder() as recorder:
            assert all(drawn.finite for drawn in verify_drafts())
        seen |= recorder.seen
    for target, drafter in _pairs(tmp_path_factory.mktemp("pairs"), str(request.param).removeprefix("torch.")):
        with torch.no_grad(), Recorder() as recorder:
            draft_round(target, drafter)
        seen |= recorder.seen
    recurrences = prepare_all(CPU, request.param)
    with torch.no_grad(), Recorder() as recorder:
        for recurrence in recurrences:
            recurrence()
    seen |= recorder.seen
    return seen


def test_no_tensor_is_of_a_type_that_mps_lacks(recorded: set[Recorded]) -> None:
    assert [operation for operation in recorded if operation.dtypes & NOT_ON_MPS] == []


def test_every_operation_has_a_kernel_on_mps(recorded: set[Recorded], table: Table) -> None:
    on_mps = {ON_MPS_INSTEAD.get(operation.name, operation.name) for operation in recorded}
    assert [name for name in on_mps if not (table.has_kernel(name) or table.is_composite(name))] == []


def test_the_parts_of_composite_operations_have_kernels_too(recorded: set[Recorded], table: Table) -> None:
    """The recorder does not see into these."""
    composite = {operation.name for operation in recorded if table.is_composite(operation.name)} - VIEWS
    assert composite <= PARTS.keys()
    assert [part for name in composite for part in PARTS[name] if not table.has_kernel(part)] == []


def test_what_mps_computes_whole_has_a_kernel_there(table: Table) -> None:
    """These are taken apart on the CPU only."""
    assert all(table.has_kernel(name) for name in ("linear", "_fused_rms_norm", *ON_MPS_INSTEAD.values()))


def test_four_bits_have_kernels_on_mps_that_the_cpu_lacks(table: Table) -> None:
    """What they make of the shapes is known to PyTorch without the device."""
    assert table.has_kernel("_weight_int4pack_mm")
    assert table.has_kernel("_convert_weight_to_int4pack")
    with FakeTensorMode(), torch.device("meta"):
        weight, bias = torch.empty(64, 256, dtype=torch.bfloat16), torch.empty(64, dtype=torch.bfloat16)
        codes = quantize_int4(weight, torch.bfloat16)
        for rows in (1, 100):
            y = WeightInt4(codes, bias, torch.device("meta"), weight.dtype)(torch.empty(rows, 256, dtype=weight.dtype))
            assert (y.shape, y.dtype) == ((rows, 64), torch.bfloat16)


def test_the_table_and_the_recorder_can_say_no(table: Table) -> None:
    assert not table.has_kernel("geqrf")
    assert not table.is_composite("geqrf")
    with Recorder() as recorder:
        torch.geqrf(torch.ones(2, 2).double())
    assert {operation.name for operation in recorder.seen if operation.dtypes & NOT_ON_MPS} >= {"geqrf", "_to_copy"}
