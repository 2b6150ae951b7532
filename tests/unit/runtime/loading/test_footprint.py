"""What a model will take is known before it is loaded, and refused where there is not as much."""

from __future__ import annotations

import re
import weakref
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from runtime.checkpoint.folder.plain import PlainTensor
from runtime.checkpoint.open import open_checkpoint
from runtime.devices.native.kernels import Kernels
from runtime.errors import CheckpointError
from runtime.kv.pages import PAGE_TOKENS
from runtime.kv.states import state_bytes
from runtime.loading import few_rows, footprint
from runtime.loading.drafters import plan_drafter
from runtime.loading.footprint import PER_SLOT, SNAPSHOTS, DrafterMemory
from runtime.loading.load import load_model
from runtime.loading.options import LoadOptions
from runtime.loading.served import Proposer
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.linear import PlainMatrix, WeightFormats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.model import Transformer
from runtime.nn.plan import planned_bytes
from runtime.nn.weights import load_weights
from runtime.store.resolve import resolve_model
from runtime.text.tokenizer import Tokenizer
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import CPU
from tests.rows import every_row

GIB = 2**30


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    FAMILIES["llama"](tmp_path)
    return tmp_path


def _load(options: LoadOptions) -> Transformer:
    return load_model(options, open_checkpoint(options.path))


@pytest.fixture(
    params=["embedded", "llama", "llama-bias", "qwen3-tied", "qwen3-moe", "gemma2", "cohere-qk-norm", "qwen3-next"]
)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A model of each kind of weights."""
    if request.param == "embedded":
        return resolve_model(None)
    FAMILIES[request.param](tmp_path)
    return tmp_path


@every_row("quantization, dtype, native", product(Quantization, (torch.float32, torch.bfloat16), (False, True)))
def test_what_weights_take_is_what_was_foreseen(
    folder: Path, quantization: Quantization, dtype: torch.dtype, native: bool, kernels: Kernels
) -> None:
    used = kernels if native else None
    checkpoint, formats = open_checkpoint(folder), choose_formats(quantization, CPU, dtype, used)
    kept = load_weights(checkpoint, device=CPU, dtype=dtype, formats=formats)
    foreseen = planned_bytes(checkpoint.config, quantization, CPU, dtype, checkpoint.tensors(), used)
    by_form = sum(kept.nbytes_by_form.values())
    assert by_form <= kept.nbytes <= 1.02 * by_form  # a router has its weight in float32, too
    assert kept.nbytes_by_form.keys() == foreseen.keys()
    for form, size in kept.nbytes_by_form.items():
        # WeightInt8, of processors without products of integers, has its scales in fewer bits.
        assert size <= foreseen[form] <= 1.05 * size


def test_capped_scores_take_memory(tmp_path: Path) -> None:
    FAMILIES["gemma2"](tmp_path)
    capped = open_checkpoint(tmp_path).config
    uncapped = replace(capped, scales=replace(capped.scales, attention_softcap=None))
    takes = [
        footprint.footprint(LoadOptions(tmp_path, context=context), config, DrafterMemory(), CPU, torch.bfloat16)
        for config, context in ((uncapped, 100), (capped, 100), (capped, 200))
    ]
    beyond = [one.activations - takes[0].activations for one in takes]
    assert beyond == [0, beyond[1], 2 * beyond[1]]
    assert beyond[1] >= 2 * 128 * capped.num_heads * 100 * 4  # scores and weights of a tile, in float32


def test_recurrent_layers_take_memory_for_rows_and_states(tmp_path: Path) -> None:
    FAMILIES["granite-hybrid"](tmp_path)
    config = open_checkpoint(tmp_path).config
    options = LoadOptions(tmp_path)
    attending = replace(config, recurrent=(None,) * 3)
    without, takes = (
        footprint.footprint(options, own, DrafterMemory(), CPU, torch.bfloat16) for own in (attending, config)
    )
    convolved = 128 + 2 * 2 * 24
    assert takes.activations - without.activations == 512 * 16 * convolved * 4
    states = (options.slots * (PER_SLOT + SNAPSHOTS) + 1) * state_bytes(config, torch.bfloat16)
    assert (without.states.nbytes, takes.states.nbytes) == (0, states)
    assert takes.without_kv == takes.weights + states + max(takes.largest_part, takes.activations)


def test_one_matrix_at_a_time_is_plain(llama: Path) -> None:
    """With `--quantize`, the whole model was there before the first matrix was quantised."""
    plain: list[weakref.ref[Tensor]] = []

    def halve(weight: Tensor, bias: Tensor | None) -> PlainMatrix:
        assert not any(matrix() is not None for matrix in plain)
        plain.append(weakref.ref(weight))
        return PlainMatrix(weight.bfloat16(), bias)

    checkpoint = open_checkpoint(llama)
    load_weights(checkpoint, device=CPU, dtype=torch.float32, formats=WeightFormats(halve, halve))
    assert len(plain) == 4 * checkpoint.config.num_layers + 1
    assert not any(matrix() is not None for matrix in plain)


def test_weights_that_do_not_fit_are_refused_before_they_are_read(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainTensor, "expand", None)  # nothing calls it
    monkeypatch.setattr(footprint, "memory_limit", lambda device: 3000)
    with pytest.raises(
        CheckpointError, match=r"the model takes .* KiB .* 2\.9 KiB are free; --quantize int8 or int4 ta"
    ):
        _load(LoadOptions(llama, device="cpu", dtype="float32"))


def test_the_drafter_counts(llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = LoadOptions(llama, device="cpu", dtype="float32", draft=llama, speculate=Proposer.DRAFT)
    checkpoint = open_checkpoint(llama)
    config = checkpoint.config
    drafter = plan_drafter(options, checkpoint, Tokenizer.load(checkpoint))
    alone = footprint.footprint(options, config, DrafterMemory(), CPU, torch.float32)
    monkeypatch.setattr(footprint, "memory_limit", lambda device: alone.without_kv)
    footprint.check_memory(options, config, DrafterMemory(), CPU, torch.float32)
    with pytest.raises(CheckpointError, match="with its drafter"):
        footprint.check_memory(options, config, drafter.memory(CPU, torch.float32), CPU, torch.float32)


def test_slots_and_context_that_do_not_fit_are_refused_with_what_would(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = open_checkpoint(llama).config
    options = LoadOptions(llama, slots=10_000, context=config.context_length, device="cpu", dtype="float32")
    takes = footprint.footprint(options, config, DrafterMemory(), CPU, torch.float32)
    monkeypatch.setattr(footprint, "memory_limit", lambda device: takes.without_kv + 30_000 * takes.slot.nbytes(1))
    monkeypatch.setattr(PlainTensor, "expand", None)
    with pytest.raises(CheckpointError) as refused:
        _load(options)
    said = re.fullmatch(
        r"10000 slots of \d+ tokens take .*; what fits: --context (\d+) or --slots (\d+)", str(refused.value)
    )
    assert said is not None
    context, slots = map(int, said.groups())
    assert (context, slots) == (3 * PAGE_TOKENS, 30_000 * PAGE_TOKENS // config.context_length)
    for fits in (replace(options, context=context), replace(options, slots=slots)):
        footprint.check_memory(fits, config, DrafterMemory(), CPU, torch.float32)


def test_what_the_kernels_keep_small_counts_as_small(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of bfloat16, computed in float32: half of what PyTorch would keep of it."""
    options = LoadOptions(resolve_model(None), slots=1, context=64, device="cpu", dtype="float32")
    checkpoint = open_checkpoint(options.path)
    sizes = [
        footprint.footprint(
            options, checkpoint.config, DrafterMemory(), CPU, torch.float32, checkpoint.tensors(), used
        ).without_kv
        for used in (kernels, None)
    ]
    monkeypatch.setattr(few_rows, "open_kernels", lambda threads: kernels)
    monkeypatch.setattr(footprint, "memory_limit", lambda device: sum(sizes) // 2)
    assert "bfloat16" in _load(options).weights.nbytes_by_form
    with pytest.raises(CheckpointError, match="the model takes"):
        _load(replace(options, native="off"))


def test_what_fits_is_loaded(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "memory_limit", lambda device: GIB)
    model = _load(LoadOptions(llama, slots=2, context=64, device="cpu", dtype="float32"))
    assert (model.kv.slots, model.kv.context) == (2, 64)


def test_a_size_for_kv_is_as_many_tokens_as_it_has_room_for(llama: Path) -> None:
    """In whole pages; no more than all slots have at their longest, and one sequence may have all of them."""
    config = open_checkpoint(llama).config
    token = footprint.SlotMemory(config, torch.float32).nbytes(PAGE_TOKENS) // PAGE_TOKENS
    for slots, size, expected in (
        (4, 100 * token, (PAGE_TOKENS,) * 2),
        (1, 10_000_000 * token, (config.context_length,) * 2),
    ):
        options = LoadOptions(llama, slots=slots, kv_memory=size, device="cpu", dtype="float32")
        model = _load(options)
        assert (model.context, model.kv.positions) == expected
        assert model.kv.nbytes <= size


def test_a_size_for_kv_that_is_too_small_or_too_large_is_refused(llama: Path) -> None:
    for kv_memory, context, says in (
        (10, None, "--kv-memory 10 B has room for 0 tokens; it must hold at least one sequence of 64"),
        (2**50, None, "--kv-memory 1 PiB does not fit|--kv-memory 1024 TiB does not fit|does not fit beside"),
        (100_000, 256, "it must hold at least one sequence of 256"),
    ):
        with pytest.raises(CheckpointError, match=says):
            _load(LoadOptions(llama, kv_memory=kv_memory, context=context, device="cpu", dtype="float32"))
