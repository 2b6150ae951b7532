"""Apple's GPU without one: every operation of a step has a kernel there, and no tensor is of a type that it lacks.

A step is run on the CPU and each operation that reaches PyTorch's dispatcher is recorded.  Whether MPS has it is looked
up in the table from which PyTorch's own dispatcher is generated, and which torch ships (`torchgen`).

Then steps are run on a fake MPS (`tests/fakes/mps.py`): nothing of the host's meets anything of the device's, the host
reads from the device once a step, and what it sends there is sent before the first layer.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
import torchgen  # type: ignore[import-untyped]
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torchgen.gen import parse_native_yaml  # type: ignore[import-untyped]
from torchgen.model import DispatchKey  # type: ignore[import-untyped]
from transformers import LlamaConfig, LlamaForCausalLM

from runtime.checkpoint.config import load_config
from runtime.checkpoint.locate import resolve_model
from runtime.kv.cache import KVCache
from runtime.loading.drafters import DraftModel
from runtime.loading.mtp_weights import _allocate as allocate_module
from runtime.loading.served import Proposer
from runtime.nn import linear, quantize
from runtime.nn.model import HiddenStates, Transformer
from runtime.nn.mtp import MtpModule
from runtime.nn.quantize import Quantization
from runtime.nn.weights import _allocate as allocate
from runtime.sampling.draws import Draws
from runtime.sampling.params import SamplingParams
from runtime.sampling.parcel import Parcel
from runtime.sampling.tokens import DraftToken, SampleSpec
from runtime.selftest.findings import Mismatch
from runtime.selftest.readbacks import check_readbacks
from runtime.step.step import Segment
from runtime.step.transfer import Copy, Load, Save
from tests.fakes.mps import MPS, Traffic, fake_mps
from tests.models.checkpoints import FAMILIES, VOCAB_SIZE, write_checkpoint
from tests.models.drawing import accept, sample
from tests.models.mtp_checkpoints import write_deepseek, write_mimo
from tests.models.speculating import open_pair
from tests.models.stepping import CPU, open_transformer, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch._ops import OpOverload

    from runtime.checkpoint.config import ModelConfig
    from runtime.nn.model import Batch
    from runtime.sampling.sampler import Drawn
    from runtime.step.step import SegmentOutput

NOT_ON_MPS = {torch.float64, torch.complex128}

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
    "clone": ["empty.memory_format", "_copy_from"],
    "copy_": ["_copy_from"],
    "embedding": ["index_select"],
    "index_put_": ["_index_put_impl_"],
    "masked_fill.Scalar": ["masked_fill_.Scalar"],
    "ones": ["empty.memory_format", "fill_.Scalar"],
    "sort": ["sort.values_stable"],
    "stack": ["cat"],
    "zeros": ["empty.memory_format", "zero_"],
    "zeros_like": ["empty.memory_format", "zero_"],
}


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
        result = func(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, torch.Tensor)]
        self.seen.add(Recorded(func.name().removeprefix("aten::"), frozenset(tensor.dtype for tensor in tensors)))  # type: ignore[no-untyped-call]
        return result


class Table:
    """native_functions.yaml: which operations there are, and what runs each of them on MPS."""

    def __init__(self) -> None:
        folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
        parsed = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
        self._functions = {str(function.func.name): function for function in parsed.native_functions}
        self._mps = parsed.backend_indices[DispatchKey.MPS]

    def has_kernel(self, name: str) -> bool:
        """Whether MPS has a kernel of its own; a structured operation has that of its out variant."""
        function = self._functions[name]
        if function.structured_delegate is not None:
            function = self._functions[str(function.structured_delegate)]
        return bool(self._mps.has_kernel(function))

    def is_composite(self, name: str) -> bool:
        """Whether it is made of other operations on every device."""
        return bool(self._functions[name].has_composite_kernel)


@pytest.fixture(scope="module")
def table() -> Table:
    return Table()


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


def _step() -> list[Segment]:
    """A prefill chunk that goes on, one that ends its prompt, and decoding with everything that sampling has."""
    return [
        Segment(0, 0, range(20)),
        Segment(1, 0, range(30), sample=SampleSpec(SamplingParams(temperature=0), 30, 0)),
        Segment(2, 0, [1], sample=SampleSpec(SamplingParams(seed=1), 1, 0)),
        Segment(3, 0, [9], sample=SampleSpec(EVERYTHING, 1, 1, context=(9,), end_ids=(3, 4))),
    ]


def _verify(device: torch.device = CPU) -> list[Drawn]:
    """A draft of each kind, and a row without: what the target's logits become."""
    logits = torch.ones(4, 64, device=device)
    drafting = SampleSpec(SamplingParams(seed=1), 1, 0), SampleSpec(EVERYTHING, 1, 1, context=(9,), end_ids=(3, 4))
    drawn = [one.token for one in sample(logits[:2], [replace(spec, for_rejection=True) for spec in drafting])]
    drafts = [DraftToken(7), *(DraftToken(token.token_id, token.distribution) for token in drawn), None]
    specs = [SampleSpec(SamplingParams(temperature=0), 1, 0), *drafting, drafting[1].after([drawn[1].token_id])]
    return accept(logits, specs, drafts)


def _pairs(folder: Path, dtype: str) -> Iterator[tuple[Transformer, Transformer]]:
    """Targets with a drafter of each kind: a module after either published form, and a model of fewer ids."""
    for name, write in (("deepseek", write_deepseek), ("mimo", write_mimo)):
        write(folder / name)
        yield _opened(open_pair(folder / name, Proposer.MTP, dtype=dtype))
    for name, ids in (("padded", VOCAB_SIZE + 4), ("draft", VOCAB_SIZE)):
        write_checkpoint(folder / name, LlamaForCausalLM, LlamaConfig, seed=1, vocab_size=ids)
    yield _opened(open_pair(folder / "padded", Proposer.DRAFT, draft=folder / "draft", dtype=dtype))


def _opened(pair: tuple[Transformer, Transformer | None]) -> tuple[Transformer, Transformer]:
    target, drafter = pair
    assert drafter is not None
    return target, drafter


def _round(target: Transformer, drafter: Transformer) -> None:
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
        patch.setattr(quantize, "has_integer_products", lambda device: False)
        yield


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16, torch.float16], ids=str)
def recorded(
    request: pytest.FixtureRequest, as_elsewhere: None, tmp_path_factory: pytest.TempPathFactory
) -> set[Recorded]:
    """What steps of three families ask for (all biases, normed heads, a window), those of every drafter, and int8's."""
    seen: set[Recorded] = set()
    for family in ("llama-bias", "qwen3-tied", "mistral"):
        folder = tmp_path_factory.mktemp(family)
        FAMILIES[family](folder)
        for quantization in (None, Quantization.INT8):
            forms = quantize.choose_forms(quantization, CPU, request.param)
            model = open_transformer(folder, dtype=request.param, forms=forms)
            segments = _step()
            with torch.no_grad(), Recorder() as recorder:
                assert run(model, segments, {1: segments[2:3]}).layers_run == 3
                assert all(result.computed for result in run(model, _step()).segments)
            seen |= recorder.seen
        with torch.no_grad(), Recorder() as recorder:
            assert all(drawn.finite for drawn in _verify())
        seen |= recorder.seen
    for target, drafter in _pairs(tmp_path_factory.mktemp("pairs"), str(request.param).removeprefix("torch.")):
        with torch.no_grad(), Recorder() as recorder:
            _round(target, drafter)
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
        for rows in (1, 100):
            y = quantize.WeightInt4(weight, bias)(torch.empty(rows, 256, dtype=torch.bfloat16))
            assert (y.shape, y.dtype) == ((rows, 64), torch.bfloat16)


def test_the_table_and_the_recorder_can_say_no(table: Table) -> None:
    assert not table.has_kernel("geqrf")
    assert not table.is_composite("geqrf")
    with Recorder() as recorder:
        torch.geqrf(torch.ones(2, 2).double())
    assert {operation.name for operation in recorder.seen if operation.dtypes & NOT_ON_MPS} >= {"geqrf", "_to_copy"}


# --- on a fake device ---------------------------------------------------------------------------------------------

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelConfig]:
    """Three families, and the embedded model, whose matrices are large enough for four bits."""
    found = {"embedded": load_config(resolve_model(None))}
    for family in ("llama-bias", "qwen3-tied", "mistral"):
        folder = tmp_path_factory.mktemp(family)
        FAMILIES[family](folder)
        found[family] = load_config(folder)
    return found


def _on_mps(
    config: ModelConfig,
    dtype: torch.dtype,
    quantization: Quantization | None = None,
    kind: type[Transformer] = Transformer,
    *rest: Any,  # noqa: ANN401
) -> Transformer:
    weights = allocate(config, MPS, dtype)
    weights.pack(quantize.choose_forms(quantization, MPS, dtype))
    return kind(config, weights, KVCache(config, slots=4, context=128, device=MPS, dtype=dtype), *rest)


class Watched:
    """A model, with what it sends to its device at each `begin` and `shrink`; the traffic then holds the rest."""

    def __init__(self, model: Transformer, traffic: Traffic) -> None:
        self.num_layers = model.num_layers
        self.parcels: list[list[str]] = []
        self.run_layer, self.abandon, self.finish = model.run_layer, model.abandon, model.finish
        self.transfer = model.transfer
        self._model = model
        self._traffic = traffic

    def begin(self, segments: Sequence[Segment]) -> Batch:
        batch = self._model.begin(segments)
        self._set_aside()
        return batch

    def shrink(self, batch: Batch, kept: Sequence[int]) -> None:
        self._model.shrink(batch, kept)
        self._set_aside()

    def _set_aside(self) -> None:
        self.parcels.append(self._traffic.sent.copy())
        self._traffic.sent.clear()


def _reads_of(traffic: Traffic, model: Transformer, segments: list[Segment], cancelled: int | None = None) -> list[str]:
    """What the host reads during a step, in whose first layer one segment may be cancelled.

    All that it sends, to the sampler too, it sends in one tensor of each type: before the layers, and where rows are
    dropped.
    """
    traffic.clear()
    watched = Watched(model, traffic)
    with Recorder() as recorder:
        results = run(watched, segments, {} if cancelled is None else {1: [segments[cancelled]]}).segments
    assert [result.computed for result in results] == [i != cancelled for i in range(len(segments))]
    assert [operation for operation in recorder.seen if operation.dtypes & NOT_ON_MPS] == []
    assert all(1 <= len(sent) <= 2 for sent in watched.parcels), "sent in pieces"
    assert not traffic.sent, "sent behind the layers"
    return traffic.read


@pytest.mark.parametrize(
    ("family", "quantization", "dtype"),
    [
        *(("embedded", bits, dtype) for bits in (None, *Quantization) for dtype in (torch.bfloat16, torch.float32)),
        *((family, None, torch.float16) for family in ("embedded", "llama-bias", "qwen3-tied", "mistral")),
    ],
    ids=str,
)
def test_a_step_stays_on_its_device_and_is_read_once(
    configs: dict[str, ModelConfig], family: str, quantization: Quantization | None, dtype: torch.dtype
) -> None:
    """With every parameter of sampling; a cancelled row; only prompts; and drafts that are verified."""
    verify = Segment(0, 20, [3, 4], sample=SampleSpec(SamplingParams(seed=1), 21, 0), drafts=[DraftToken(4)])
    with fake_mps() as traffic:
        model = _on_mps(configs[family], dtype, quantization)
        assert _reads_of(traffic, model, _step()) == ["tolist"]
        assert _reads_of(traffic, model, _step(), cancelled=2) == ["tolist"]
        assert _reads_of(traffic, model, _step()[:1]) == ["tolist"]
        assert _reads_of(traffic, model, [verify, *_step()[1:]]) == ["tolist"]


@pytest.mark.parametrize("params", [SamplingParams(seed=1), EVERYTHING], ids=["plain", "everything"])
@DTYPES
def test_drafts_stay_on_their_device_and_are_read_once(
    configs: dict[str, ModelConfig], dtype: torch.dtype, params: SamplingParams
) -> None:
    """By a module, twice, and by a model of fewer ids; each is then verified by rejection sampling."""
    config = configs["embedded"]
    spec = SampleSpec(params, 21, 1, context=range(21), end_ids=(3, 4))
    with fake_mps() as traffic:
        states = HiddenStates(4, 128, config.hidden_size, MPS, dtype)
        target = _on_mps(config, dtype, None, Transformer, states)
        module = MtpModule(config, allocate_module(config, MPS, dtype), target, states)
        model = _on_mps(replace(config, vocab_size=4000), dtype, None, DraftModel, config.vocab_size)
        assert _reads_of(traffic, target, [Segment(0, 0, range(20))]) == ["tolist"]
        for drafter, first in ((module, 1), (model, 0)):
            for start, tokens in ((first, range(first, 21)), (21, [5])):
                drafting = Segment(0, start, tokens, sample=replace(spec, for_rejection=True), first=first)
                assert _reads_of(traffic, drafter, [drafting]) == ["tolist"]
            (draft,) = run(drafter, [drafting]).segments[0].tokens
            assert draft.distribution is not None
            assert draft.distribution.device == MPS
            proposal = DraftToken(draft.token_id, draft.distribution)
            verifying = Segment(0, 20, [20, draft.token_id], sample=spec, drafts=[proposal])
            assert _reads_of(traffic, target, [verifying]) == ["tolist"]


def test_verdicts_stay_on_their_device_and_are_read_once() -> None:
    with fake_mps() as traffic:
        _verify(MPS)
        assert traffic.read == ["tolist", "tolist"]  # the drafts, and the verdicts
        assert len(traffic.sent) == 4  # for either, numbers of two types


@DTYPES
def test_kv_moves_between_host_and_device(configs: dict[str, ModelConfig], dtype: torch.dtype) -> None:
    """A layer at a time on its way out; nothing is read on its way in, nor from slot to slot."""
    with fake_mps() as traffic:
        model = _on_mps(configs["mistral"], dtype)
        saved = model.transfer(Save(0, 0, 64))
        assert saved is not None
        assert saved.device == CPU
        assert traffic.read == ["aten::copy_"] * model.num_layers
        traffic.clear()
        model.transfer(Load(1, 0, saved))
        model.transfer(Copy(1, 2, 0, 64))
        assert traffic.read == []


class IndexOnTheHost(Transformer):
    def _embed(self, token_ids: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return super()._embed(token_ids.cpu(), slots, positions)


class MaskOnTheHost(Transformer):
    def _mask(self, segments: Sequence[Segment], window: int | None) -> torch.Tensor | None:
        mask = super()._mask(segments, window)
        return None if mask is None else mask.cpu()


class RowsOnTheHost(Transformer):
    def finish(self, batch: Batch) -> list[SegmentOutput]:
        batch.sampled = batch.sampled.cpu()
        return super().finish(batch)


class Mask(Transformer):
    def finish(self, batch: Batch) -> list[SegmentOutput]:
        batch.sampled = batch.sampled[batch.sampled > 3]
        return super().finish(batch)


class Late(Transformer):
    def finish(self, batch: Batch) -> list[SegmentOutput]:
        parcel = Parcel()
        batch.draws = Draws.of(batch.draws.specs, batch.draws.drafts, parcel)
        parcel.send(self._device)
        return super().finish(batch)


class LateByList(Transformer):
    def _logits(self, states: torch.Tensor) -> torch.Tensor:
        return super()._logits(states) / torch.tensor([[1.0]] * len(states), device=states.device)


class Piecemeal(Transformer):
    def begin(self, segments: Sequence[Segment]) -> Batch:
        batch = super().begin(segments)
        batch.sampled = torch.tensor([4] * len(batch.sampled), device=self._device)
        return batch


class Nosy(Transformer):
    def _logits(self, states: torch.Tensor) -> torch.Tensor:
        return super()._logits(states) * (2.0 if states.sum().item() else 1.0)


class Exact(Transformer):
    def _logits(self, states: torch.Tensor) -> torch.Tensor:
        return super()._logits(states).double().float()


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
        model = _on_mps(configs["mistral"], torch.bfloat16, None, wrong)
        with pytest.raises((AssertionError, RuntimeError), match=says):
            assert _reads_of(traffic, model, _step()) == ["tolist"]


class Copies(Transformer):
    def _logits(self, states: torch.Tensor) -> torch.Tensor:
        assert states.cpu().shape == states.to("cpu").shape
        return super()._logits(states)


def test_the_doctor_counts_what_is_read(configs: dict[str, ModelConfig]) -> None:
    """By what a real device would see: here the fake one answers for the step's own read."""
    with fake_mps():
        figures = check_readbacks(_on_mps(configs["mistral"], torch.bfloat16))
        assert figures["reads_per_step"] == 0
        with pytest.raises(Mismatch, match="reads from the device by aten::") as caught:
            check_readbacks(_on_mps(configs["mistral"], torch.bfloat16, None, Copies))
    assert caught.value.figures["reads_per_step"] == 2
