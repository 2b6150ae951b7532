"""Packed matrices of other tools: what they stand for, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import save_file

from runtime.checkpoint.folder.quantized import read_quantized, refuse_parts
from runtime.checkpoint.folder.shards import read_shard
from runtime.checkpoint.stored import CodeFormat
from runtime.errors import CheckpointError
from tests.models.packed_weights import (
    awq_parts,
    compressed_parts,
    gptq_parts,
    mlx_float_parts,
    mlx_parts,
    small_float,
)
from tests.rows import every_row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import StoredTensor

MODULE = "model.layers.0.self_attn.q_proj"
OUTPUTS, INPUTS = 32, 256


@dataclass(frozen=True)
class Numbers:
    """A random matrix."""

    bits: int
    group: int
    dtype: torch.dtype = torch.float16

    def _random(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.bits * self.group)

    @property
    def codes(self) -> torch.Tensor:
        """Whole numbers `[out, in]`."""
        return torch.randint(0, 2**self.bits, (OUTPUTS, INPUTS), generator=self._random())

    @property
    def scales(self) -> torch.Tensor:
        """One of each group, `[out, groups]`."""
        return torch.rand(OUTPUTS, INPUTS // self.group, generator=self._random()).mul(0.01).to(self.dtype)

    @property
    def zeros(self) -> torch.Tensor:
        """Whole numbers, likewise."""
        shape = (OUTPUTS, INPUTS // self.group)
        return torch.randint(1, 2**self.bits, shape, generator=self._random())

    @property
    def biases(self) -> torch.Tensor:
        """Numbers, likewise."""
        return torch.randn(OUTPUTS, INPUTS // self.group, generator=self._random()).mul(0.05).to(self.dtype)

    def weights(self, zeros: torch.Tensor | int) -> torch.Tensor:
        """Return what `scale * (code - zero)` is, one weight at a time."""
        by_group = torch.as_tensor(zeros).expand(self.scales.shape).tolist()
        scales, codes = self.scales.float().tolist(), self.codes.tolist()
        return torch.tensor(
            [
                [scales[o][i // self.group] * (codes[o][i] - by_group[o][i // self.group]) for i in range(INPUTS)]
                for o in range(OUTPUTS)
            ]
        )

    def affine(self) -> torch.Tensor:
        """Return what `scale * code + bias` is."""
        return self.weights(0) + self.biases.float().repeat_interleave(self.group, 1)


def read(folder: Path, settings: Settings, parts: Mapping[str, torch.Tensor]) -> dict[str, StoredTensor]:
    """Write the parts of one module, and read them as a folder with that config.json does."""
    folder.mkdir(exist_ok=True)
    save_file({f"{MODULE}.{name}": part for name, part in parts.items()}, folder / "model.safetensors")
    quantized = read_quantized(settings)
    assert quantized is not None
    return quantized.assemble(read_shard(folder / "model.safetensors"))


def read_matrix(folder: Path, settings: Settings, parts: Mapping[str, torch.Tensor]) -> StoredTensor:
    tensors = read(folder, settings, parts)
    assert list(tensors) == [f"{MODULE}.weight"]
    matrix = tensors[f"{MODULE}.weight"]
    assert matrix.shape == (OUTPUTS, INPUTS)
    assert matrix.file == "model.safetensors"
    return matrix


def check(matrix: StoredTensor, expected: torch.Tensor, code_group: int | None, code_bits: int = 4) -> None:
    """It stands for `expected`, whole or in part, and so do its codes where it has any."""
    assert torch.equal(matrix.expand(), expected)
    assert torch.equal(matrix.expand(slice(3, 9)), expected[3:9])
    assert torch.equal(matrix.expand([7, 2, 2]), expected[[7, 2, 2]])
    assert matrix.code_format == (None if code_group is None else CodeFormat(code_bits, code_group))
    if code_group is not None:
        for rows, part in ((slice(None), expected), ([5, 1], expected[[5, 1]])):
            codes = matrix.codes(rows)
            assert (codes.codes.dtype, codes.group) == (torch.uint8, code_group)
            assert codes.scales.shape == codes.zeros.shape == (len(part), INPUTS // code_group)
            torch.testing.assert_close(codes.expand(), part, rtol=0, atol=1e-7)


# --- MLX ----------------------------------------------------------------------------------------------------------


def mlx(numbers: Numbers) -> dict[str, torch.Tensor]:
    return mlx_parts(numbers.codes.tolist(), numbers.scales, numbers.biases, numbers.bits)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_mlx_matrices_are_as_they_are_written_down(bits: int, group: int, dtype: torch.dtype, tmp_path: Path) -> None:
    numbers = Numbers(bits, group, dtype)
    settings = {"quantization": {"bits": bits, "group_size": group}}
    check(read_matrix(tmp_path, settings, mlx(numbers)), numbers.affine(), group if bits <= 4 else None)


def test_a_module_of_mlx_may_have_bits_of_its_own(tmp_path: Path) -> None:
    usual, special = {"bits": 4, "group_size": 64, "mode": "affine"}, {"bits": 6, "group_size": 32}
    settings = {"quantization": {**usual, MODULE: special, "lm_head": False}, "quantization_config": usual}
    check(read_matrix(tmp_path, settings, mlx(Numbers(6, 32))), Numbers(6, 32).affine(), None)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: .*q_proj\.weight is U32"):
        read(tmp_path, {"quantization": usual}, mlx(Numbers(6, 32)))


def test_a_module_of_mlx_without_a_mode_is_affine_whatever_the_others_are(tmp_path: Path) -> None:
    settings = {"quantization": {"bits": 4, "group_size": 32, "mode": "mxfp4", MODULE: {"bits": 8}}}
    check(read_matrix(tmp_path, settings, mlx(Numbers(8, 64))), Numbers(8, 64).affine(), None)


@pytest.mark.parametrize(("mode", "bits", "group"), [("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)])
def test_mlx_numbers_with_a_byte_for_each_group_are_as_they_are_written_down(
    mode: str, bits: int, group: int, tmp_path: Path
) -> None:
    """All numbers there are, and scales from the least on; all bits but the sign of E4M3 are no number."""
    numbers, random = Numbers(bits, group).codes, torch.Generator().manual_seed(group)
    numbers[numbers % 128 == 127] -= 1
    scales = torch.randint(0, 120 if mode == "nvfp4" else 245, (OUTPUTS, INPUTS // group), generator=random)
    values = [small_float(code, *((2, 1) if bits == 4 else (4, 3))) for code in range(1 << bits)]
    factors = [small_float(byte, 4, 3) if mode == "nvfp4" else 2.0 ** (byte - 127) for byte in range(256)]
    expected = torch.tensor(
        [
            [values[code] * factors[byte] for code, byte in zip(row, each, strict=True)]
            for row, each in zip(numbers.tolist(), scales.repeat_interleave(group, 1).tolist(), strict=True)
        ]
    )
    parts = mlx_float_parts(numbers.tolist(), scales.tolist(), bits)
    matrix = read_matrix(tmp_path, {"quantization": {"bits": bits, "group_size": group, "mode": mode}}, parts)
    check(matrix, expected, 16 if bits == 4 else None, code_bits=6)


def test_mlx_stores_stacks_of_matrices_alike(tmp_path: Path) -> None:
    numbers = Numbers(4, 64)
    stacked = {name: part.view(2, OUTPUTS // 2, -1) for name, part in mlx(numbers).items()}
    matrix = read(tmp_path, {"quantization": {"bits": 4, "group_size": 64}}, stacked)[f"{MODULE}.weight"]
    assert matrix.shape == (2, OUTPUTS // 2, INPUTS)
    assert torch.equal(matrix.expand(), numbers.affine().view(matrix.shape))
    assert torch.equal(matrix.expand(slice(15, 18)), numbers.affine()[15:18])
    torch.testing.assert_close(matrix.codes(slice(15, 18)).expand(), numbers.affine()[15:18], rtol=0, atol=1e-7)


# --- the others ---------------------------------------------------------------------------------------------------


def gptq_config(bits: int, group: int, **more: object) -> Settings:
    return {"quantization_config": {"quant_method": "gptq", "bits": bits, "group_size": group, **more}}


@pytest.mark.parametrize(("version", "held"), [({}, -1), ({"checkpoint_format": "gptq_v2"}, 0)])
@pytest.mark.parametrize("group", [32, 128, -1])
@pytest.mark.parametrize("bits", [4, 8])
def test_gptq_matrices_are_as_they_are_written_down(
    bits: int, group: int, version: Mapping[str, str], held: int, tmp_path: Path
) -> None:
    numbers = Numbers(bits, group if group > 0 else INPUTS)
    parts = gptq_parts(numbers.codes.tolist(), numbers.scales, (numbers.zeros + held).tolist(), bits)
    if group == -1:
        del parts["g_idx"]
    matrix = read_matrix(tmp_path, gptq_config(bits, group, **version), parts)
    check(matrix, numbers.weights(numbers.zeros), None if bits == 8 else numbers.group)


@pytest.mark.parametrize("group", [64, 128])
def test_awq_matrices_are_as_they_are_written_down(group: int, tmp_path: Path) -> None:
    numbers = Numbers(4, group)
    parts = awq_parts(numbers.codes.tolist(), numbers.scales, numbers.zeros.tolist())
    settings = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm"}}
    check(read_matrix(tmp_path, settings, parts), numbers.weights(numbers.zeros), group)


def compressed_config(bits: int, group: int | None, symmetric: bool, **more: object) -> Settings:
    weights = {
        "num_bits": bits,
        "type": "int",
        "strategy": "channel" if group is None else "group",
        "group_size": group,
        "symmetric": symmetric,
        **more,
    }
    entry = {"targets": ["Linear"], "weights": weights, "input_activations": None}
    method = {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"]}
    return {"quantization_config": {**method, "config_groups": {"group_0": entry}}}


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group", [128, None])
@pytest.mark.parametrize("bits", [4, 8])
def test_compressed_tensors_are_as_they_are_written_down(
    bits: int, group: int | None, symmetric: bool, tmp_path: Path
) -> None:
    numbers = Numbers(bits, group or INPUTS, torch.bfloat16)
    zeros = None if symmetric else numbers.zeros.tolist()
    parts = compressed_parts(numbers.codes.tolist(), numbers.scales, zeros, bits)
    matrix = read_matrix(tmp_path, compressed_config(bits, group, symmetric), parts)
    expected = numbers.weights(2 ** (bits - 1) if symmetric else numbers.zeros)
    check(matrix, expected, None if bits == 8 else numbers.group)


def test_old_compressed_tensors_have_zeros_in_bytes(tmp_path: Path) -> None:
    numbers = Numbers(4, 128)
    parts = compressed_parts(numbers.codes.tolist(), numbers.scales, None, 4)
    parts["weight_zero_point"] = (numbers.zeros - 8).to(torch.int8)
    matrix = read_matrix(tmp_path, compressed_config(4, 128, symmetric=False), parts)
    check(matrix, numbers.weights(numbers.zeros), 128)


def test_what_is_not_quantised_stays_as_it_is(tmp_path: Path) -> None:
    numbers = Numbers(4, 64)
    parts = {f"{MODULE}.{name}": part for name, part in mlx(numbers).items()}
    plain = {f"{MODULE}.bias": torch.ones(OUTPUTS), "lm_head.weight": torch.ones(4, 4)}
    save_file(parts | plain, tmp_path / "model.safetensors")
    quantized = read_quantized({"quantization": {"bits": 4, "group_size": 64}})
    assert quantized is not None
    found = quantized.assemble(read_shard(tmp_path / "model.safetensors"))
    assert set(found) == {f"{MODULE}.weight", *plain}
    assert torch.equal(found[f"{MODULE}.bias"].expand(), torch.ones(OUTPUTS))


# --- what is refused ----------------------------------------------------------------------------------------------


def test_plain_folders_have_no_layout() -> None:
    assert read_quantized({}) is None
    assert read_quantized({"quantization_config": None}) is None


@every_row(
    "settings, why",
    [
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "'bitsandbytes' is not supported; these are: awq"),
        ({"quantization_config": {}}, "quant_method None is not supported"),
        ({"quantization_config": []}, "is not an object"),
        ({"quantization": {"bits": 6, "group_size": 32, "mode": "mxfp6"}}, "mode 'mxfp6' is not supported"),
        ({"quantization": {"bits": 4, "group_size": 32, "mode": "nvfp4"}}, "group_size 32 is not supported; .* 16$"),
        ({"quantization": {"bits": 4, "group_size": 32, "mode": "mxfp8"}}, "bits 4 is not supported; these are: 8$"),
        ({"quantization": {"bits": 7, "group_size": 32}}, "bits 7 is not supported"),
        ({"quantization": {"bits": 4, "group_size": 48}}, "group_size 48 is not supported"),
        ({"quantization": {"bits": 4, "group_size": 64, "a": {"bits": 1}}}, "quantization.a.bits 1 is not supported"),
        ({"quantization": {"bits": "4", "group_size": 64}}, "bits '4' is not a whole number"),
        (gptq_config(3, 128), "bits 3 is not supported for GPTQ"),
        (gptq_config(4, 128, desc_act=True), "desc_act True is not supported"),
        (gptq_config(4, 128, dynamic={"+:.*": {"bits": 8}}), "dynamic .* is not supported"),
        (gptq_config(4, 128, checkpoint_format="marlin"), "'marlin' is not supported"),
        (gptq_config(4, -2), "group_size -2 is not a whole number"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4, "version": "gemv"}}, "'gemv' is not supported"),
        ({"quantization_config": {"quant_method": "awq", "bits": 3}}, "bits 3 is not supported for AWQ"),
        (compressed_config(4, 128, symmetric=True, actorder="group"), "actorder 'group' is not supported"),
        (compressed_config(4, 128, symmetric=True, type="float"), "is not whole numbers of 4 or 8 bits"),
        (compressed_config(4, 128, symmetric=True, strategy="tensor"), "strategy 'tensor' is not supported"),
        (
            {"quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized"}},
            "format 'float-quantized' is not supported for compressed-tensors",
        ),
        (
            {"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"}},
            "config_groups None is not supported",
        ),
    ],
)
def test_other_forms_are_refused_by_name(settings: Settings, why: str) -> None:
    with pytest.raises(CheckpointError, match=why):
        read_quantized(settings)


def test_inputs_in_another_order_are_refused(tmp_path: Path) -> None:
    numbers = Numbers(4, 128)
    parts = gptq_parts(numbers.codes.tolist(), numbers.scales, numbers.zeros.tolist(), 4)
    matrix = read_matrix(tmp_path, gptq_config(4, 128), parts | {"g_idx": parts["g_idx"].flip(0).contiguous()})
    with pytest.raises(CheckpointError, match="g_idx orders the inputs by activation"):
        matrix.codes()


@pytest.mark.parametrize("missing", ["weight", "biases"])
def test_a_part_that_is_missing_is_named(missing: str, tmp_path: Path) -> None:
    parts = mlx(Numbers(4, 64))
    del parts[missing]
    with pytest.raises(CheckpointError, match=rf"q_proj\.{missing}: is missing beside .*q_proj\.scales"):
        read(tmp_path, {"quantization": {"bits": 4, "group_size": 64}}, parts)


@pytest.mark.parametrize("part", ["qweight", "qzeros", "scales", "g_idx"])
def test_parts_that_do_not_fit_are_refused(part: str, tmp_path: Path) -> None:
    numbers = Numbers(4, 64)
    parts = gptq_parts(numbers.codes.tolist(), numbers.scales, numbers.zeros.tolist(), 4)
    with pytest.raises(CheckpointError, match=r"is (I32|F16) \[.*\]; GPTQ 4 bits by 64 make it"):
        read(tmp_path, gptq_config(4, 64), parts | {part: parts[part][:-1].contiguous()})
    with pytest.raises(CheckpointError, match=f"q_proj.{part} is F64"):
        read(tmp_path, gptq_config(4, 64), parts | {part: parts[part].double()})
    with pytest.raises(CheckpointError, match=f"q_proj.{part} is a single number"):
        read(tmp_path, gptq_config(4, 64), parts | {part: torch.tensor(1)})


@pytest.mark.parametrize("outputs", [8, 12])
def test_zeros_that_do_not_fill_their_words_are_refused(outputs: int, tmp_path: Path) -> None:
    parts = gptq_parts([[1] * 64] * outputs, torch.ones(outputs, 1), [[1]] * 16, 4)
    with pytest.raises(CheckpointError, match=r"qzeros is I32 .* make it I32 or U32 \[1, "):
        read(tmp_path, gptq_config(4, 64), parts)


def test_whole_numbers_that_are_no_part_of_a_matrix_are_refused(tmp_path: Path) -> None:
    save_file({"model.norm.weight": torch.ones(8, dtype=torch.int32)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight has numbers of the type I32"):
        refuse_parts(read_shard(tmp_path / "model.safetensors"))
