"""Weights as a checkpoint's files have them: what keeps its codes, what becomes int8, and what is expanded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import torch

from runtime.checkpoint.stored import ALL, GroupCodes
from runtime.nn import stored_source
from runtime.nn.matrices.embedding import Int4Embedding, Int8Embedding, PlainEmbedding
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.stored_source import StoredSource
from tests.models.step_driver import CPU

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.checkpoint.stored import CodeFormat, Rows
    from runtime.devices.native.kernels import Kernels

INPUTS = 128
SLAB_ROWS = 24  # of a matrix, at a time: no part has a whole number of slabs


@pytest.fixture(autouse=True)
def small_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_source, "SLAB", SLAB_ROWS * INPUTS)


@dataclass(frozen=True)
class Stored:
    """A tensor in memory, of four bits where it has codes."""

    form: str
    weight: torch.Tensor
    own: GroupCodes | None = None

    @property
    def file(self) -> str:
        """File's name."""
        return "model"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weight."""
        return tuple(self.weight.shape)

    @property
    def num_bytes(self) -> int:
        """Some bytes."""
        return self.weight.numel()

    @property
    def code_format(self) -> CodeFormat | None:
        """Format of the codes."""
        return None if self.own is None else self.own.format

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Rows in full."""
        return self.weight[rows]

    def codes(self, rows: Rows = ALL) -> GroupCodes:
        """Rows in codes, no more than a slab of them: a whole matrix taken apart is several times its size."""
        assert self.own is not None
        own = GroupCodes(self.own.codes[rows], self.own.scales[rows], self.own.zeros[rows], self.own.group)
        assert own.codes.shape[0] <= SLAB_ROWS
        return own


def draw(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 0.05


def stored(form: str, outputs: int, seed: int) -> Stored:
    """A matrix; `Q4_1` has codes by 32 and `affine` by 64, which bfloat16 says exactly."""
    group = {"Q4_1": 32, "affine": 64}.get(form)
    if group is None:
        return Stored(form, draw(outputs, INPUTS, seed=seed).bfloat16().float())
    generator = torch.Generator().manual_seed(seed)
    codes = GroupCodes(
        torch.randint(0, 16, (outputs, INPUTS), generator=generator, dtype=torch.uint8),
        torch.rand(outputs, INPUTS // group, generator=generator).mul_(0.01).bfloat16().float(),
        torch.randn(outputs, INPUTS // group, generator=generator).mul_(0.01).bfloat16().float(),
        group,
    )
    return Stored(form, codes.expand(), codes)


def source(
    tensors: Mapping[str, Stored],
    quantization: Quantization,
    kernels: Kernels | None = None,
    dtype: torch.dtype = torch.float32,
) -> StoredSource:
    return StoredSource(tensors, CPU, dtype, choose_formats(quantization, CPU, dtype, kernels))


QKV = {"q_proj": 64, "k_proj": 32, "v_proj": 32}


def qkv(*forms: str, bias: bool = False) -> dict[str, Stored]:
    parts = {
        f"{name}.weight": stored(form, outputs, seed)
        for seed, ((name, outputs), form) in enumerate(zip(QKV.items(), forms, strict=True))
    }
    biases = {f"{name}.bias": Stored("F32", draw(outputs, seed=9)) for name, outputs in QKV.items()}
    return parts | (biases if bias else {})


def check(
    tensors: Mapping[str, Stored],
    quantization: Quantization,
    forms: list[str],
    error: float,
    kernels: Kernels | None = None,
) -> None:
    """The parts' products follow one another, in these forms."""
    given = source(tensors, quantization, kernels)
    bias = "q_proj.bias" in tensors
    linear = given.linear(QKV, INPUTS, bias=bias)
    x = draw(5, INPUTS, seed=20)
    expected = torch.cat(
        [x @ tensors[f"{n}.weight"].weight.T + (tensors[f"{n}.bias"].weight if bias else 0.0) for n in QKV], dim=1
    )
    assert ((linear(x) - expected).norm() / expected.norm()).item() <= error
    assert list(linear.nbytes_by_form) == forms
    assert given.nbytes_by_form == linear.nbytes_by_form


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("stored_as", "kept_as", "error"),
    [
        (("BF16", "BF16", "BF16"), ["float32"], 1e-6),
        (("Q4_1", "Q4_1", "Q4_1"), ["int4 by 32"], 0.004),
        (("affine", "affine", "affine"), ["int4 by 64"], 0.004),
        (("Q8_0", "Q8_0", "Q6_K"), ["int8"], 0.015),
        (("Q4_1", "Q4_1", "Q6_K"), ["int4 by 32", "int8"], 0.015),
        (("Q4_1", "Q6_K", "Q4_1"), ["int4 by 32", "int8"], 0.015),
        (("Q4_1", "affine", "F16"), ["int4 by 32", "int4 by 64", "float32"], 0.004),
    ],
    ids=str,
)
def test_parts_in_several_forms_are_joined_and_each_keeps_its_own(
    stored_as: tuple[str, ...], kept_as: list[str], error: float, bias: bool
) -> None:
    check(qkv(*stored_as, bias=bias), Quantization.AUTO, kept_as, error)


@pytest.mark.parametrize(
    ("quantization", "kept_as", "error"),
    [
        (Quantization.NONE, ["float32"], 1e-6),
        (Quantization.INT8, ["int8"], 0.015),
        (Quantization.INT4, ["int4 by 32"], 0.1),
    ],
)
def test_all_parts_are_in_the_form_that_is_asked_for(
    quantization: Quantization, kept_as: list[str], error: float
) -> None:
    check(qkv("Q4_1", "Q6_K", "F16"), quantization, kept_as, error)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("quantization", [Quantization.AUTO, Quantization.NONE])
def test_where_kernels_widen_them_sixteen_bits_stay_what_they_are(
    kernels: Kernels, quantization: Quantization, bias: bool
) -> None:
    for stored_as, kept_as in (
        (("BF16", "BF16", "BF16"), ["bfloat16"]),
        (("F16", "F16", "BF16"), ["float16", "bfloat16"]),
        (("F32", "BF16", "F32"), ["float32", "bfloat16"]),
    ):
        check(qkv(*stored_as, bias=bias), quantization, kept_as, 1e-5, kernels)


def test_where_less_is_asked_for_sixteen_bits_are_quantised(kernels: Kernels) -> None:
    forms = list(source(qkv("BF16", "F16", "BF16"), Quantization.INT8, kernels).linear(QKV, INPUTS).nbytes_by_form)
    assert forms == ["int8"]


def test_shapes_that_the_kernels_do_not_take_are_brought_to_the_models_dtype(kernels: Kernels) -> None:
    tensors = {"q_proj.weight": stored("BF16", 24, 0), "embed.weight": stored("BF16", 100, 3)}
    given = source(tensors, Quantization.AUTO, kernels)
    assert given.linear({"q_proj": 24}, INPUTS).form == "float32"
    embedding = given.embedding("embed", 100, INPUTS)
    assert embedding.form == given.tied_head("embed", embedding, 100, INPUTS).form == "float32"


def test_codes_that_no_kernel_takes_become_int8() -> None:
    tensors = {"q_proj.weight": stored("Q4_1", 24, 0)}
    assert source(tensors, Quantization.AUTO).linear({"q_proj": 24}, INPUTS).form == "int8"


@pytest.mark.parametrize(
    ("form", "quantization", "kind", "error"),
    [
        ("BF16", Quantization.AUTO, PlainEmbedding, 0.0),
        ("Q8_0", Quantization.AUTO, Int8Embedding, 0.008),
        ("Q4_1", Quantization.AUTO, Int4Embedding, 1e-6),
        ("Q4_1", Quantization.NONE, PlainEmbedding, 0.0),
        ("Q4_1", Quantization.INT8, Int8Embedding, 0.008),
        ("BF16", Quantization.INT4, Int8Embedding, 0.008),
    ],
)
def test_an_embedding_is_kept_as_it_is_stored(
    form: str, quantization: Quantization, kind: type[object], error: float
) -> None:
    tensors = {"embed.weight": stored(form, 96, 3)}
    given = source(tensors, quantization)
    embedding, tokens = given.embedding("embed", 96, INPUTS), torch.tensor([7, 95, 0, 7])
    assert isinstance(embedding, kind)
    expected = tensors["embed.weight"].weight[tokens]
    assert ((embedding(tokens) - expected).norm() / expected.norm()).item() <= error
    assert given.nbytes_by_form == {embedding.form: embedding.nbytes}


@pytest.mark.parametrize("form", ["BF16", "F16"])
def test_an_embedding_of_sixteen_bits_and_its_head_are_one_tensor(kernels: Kernels, form: str) -> None:
    tensors = {"embed.weight": stored(form, 96, 3)}
    given = source(tensors, Quantization.AUTO, kernels)
    embedding, tokens = given.embedding("embed", 96, INPUTS), torch.tensor([7, 95, 0, 7])
    assert isinstance(embedding, PlainEmbedding)
    rows = embedding(tokens)
    assert (rows.dtype, embedding.dtype) == (torch.float32, torch.float32)
    torch.testing.assert_close(rows, tensors["embed.weight"].weight[tokens], rtol=0, atol=1e-7)
    head, x = given.tied_head("embed", embedding, 96, INPUTS), draw(3, INPUTS, seed=1)
    assert head.shares(embedding.weight)
    torch.testing.assert_close(head(x), x @ tensors["embed.weight"].weight.T, rtol=1e-4, atol=1e-5)
    assert given.nbytes_by_form == {embedding.form: 2 * 96 * INPUTS}


@pytest.mark.parametrize(("form", "head"), [("BF16", None), ("Q8_0", "int8"), ("Q4_1", "int4 by 32")])
def test_a_tied_head_is_the_plain_embedding_or_of_its_own_form(form: str, head: str | None) -> None:
    done: list[tuple[int, int]] = []
    tensors = {"embed.weight": stored(form, 96, 3)}
    formats = choose_formats(Quantization.AUTO, CPU, torch.float16)
    given = StoredSource(tensors, CPU, torch.float16, formats, lambda *progress: done.append(progress))
    embedding = given.embedding("embed", 96, INPUTS)
    linear, x = given.tied_head("embed", embedding, 96, INPUTS), draw(3, INPUTS, seed=1).half()
    expected = x.float() @ tensors["embed.weight"].weight.T
    assert ((linear(x) - expected).norm() / expected.norm()).item() <= 0.015
    assert linear.form == (head or "float16")
    assert sum(given.nbytes_by_form.values()) == embedding.nbytes + (linear.nbytes if head else 0)
    assert done == [(96 * INPUTS, 96 * INPUTS)]  # though it may have been read twice
