"""Rows of every type, bit for bit as the `gguf` library expands them."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import gguf
import numpy as np
import pytest
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter

from runtime.checkpoint.gguf.codes import group_codes
from runtime.checkpoint.gguf.header import read_header
from runtime.checkpoint.gguf.tensors import CODE_FORMATS, PACKED_TYPES, PLAIN_TYPES, GgufTensor
from runtime.checkpoint.stored import CodeFormat, SelectedRows
from runtime.errors import CheckpointError
from tests.models.gguf.raw import RawFile, tensor

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from runtime.checkpoint.stored import Rows

ROWS, WIDTH = 7, 512
TYPES = sorted([*PLAIN_TYPES, *PACKED_TYPES], key=lambda kind: kind.name)
SOME_ROWS: list[Rows] = [slice(None), slice(2, 5), slice(-3, None), slice(3, 3), [6, 0, 0, 3], []]


def _raw(kind: GGMLQuantizationType, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return numbers in that type, `[…, bytes]`: by the library, or else any bytes, infinite scales included."""
    generator = np.random.default_rng(int(kind))
    try:
        numbers: NDArray[np.uint8] = gguf.quantize(generator.standard_normal(shape, np.float32), kind).view(np.uint8)
    except NotImplementedError:  # the library reads more types than it writes
        block, block_bytes = GGML_QUANT_SIZES[kind]
        numbers = generator.integers(0, 256, (*shape[:-1], shape[-1] // block * block_bytes), np.uint8)
    return numbers


def _stored(path: Path, kind: GGMLQuantizationType, raw: NDArray[np.uint8]) -> GgufTensor:
    writer = GGUFWriter(path, "llama")
    writer.add_tensor("before", np.zeros(3, np.float32))
    writer.add_tensor("w", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return GgufTensor(read_header(path).tensors["w"])


def _expected(raw: NDArray[np.uint8], kind: GGMLQuantizationType) -> torch.Tensor:
    with np.errstate(all="ignore"):
        return torch.from_numpy(np.array(gguf.dequantize(raw, kind)))


def _same_bits(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether both are the same, the sign of zeros included; one NaN is as good as another."""
    found, nan = found.float(), expected.isnan()
    same = found.view(torch.int32) == expected.view(torch.int32)
    return found.shape == expected.shape and bool((same | nan).all()) and torch.equal(found.isnan(), nan)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_rows_are_bit_for_bit_those_of_the_library(kind: GGMLQuantizationType, tmp_path: Path) -> None:
    raw = _raw(kind, (ROWS, WIDTH))
    stored = _stored(tmp_path / "m.gguf", kind, raw)
    expected = _expected(raw, kind)
    assert (stored.shape, stored.form, stored.num_bytes) == ((ROWS, WIDTH), kind.name, raw.nbytes)
    assert stored.file == "m.gguf"
    for rows in SOME_ROWS:
        found = stored.expand(rows)
        assert str(found.dtype) == f"torch.{PLAIN_TYPES.get(kind, 'float32')}"
        assert _same_bits(found, expected[rows]), rows


@pytest.mark.parametrize("kind", [GGMLQuantizationType.F16, GGMLQuantizationType.Q6_K], ids=lambda kind: kind.name)
def test_a_long_matrix_is_read_in_pieces_that_fit_together(kind: GGMLQuantizationType, tmp_path: Path) -> None:
    raw = _raw(kind, (1500, 256))
    stored = _stored(tmp_path / "m.gguf", kind, raw)
    expected = _expected(raw, kind)
    backwards = list(range(1499, -1, -1))
    assert _same_bits(stored.expand(), expected)
    assert _same_bits(stored.expand(slice(1, 1499)), expected[1:1499])
    assert _same_bits(stored.expand(backwards), expected[backwards])


def test_a_stack_is_read_as_the_matrix_of_all_its_rows(tmp_path: Path) -> None:
    raw = _raw(GGMLQuantizationType.Q8_0, (3, 4, 64))
    stored = _stored(tmp_path / "m.gguf", GGMLQuantizationType.Q8_0, raw)
    expected = _expected(raw, GGMLQuantizationType.Q8_0)
    assert stored.shape == (3, 4, 64)
    assert _same_bits(stored.expand(), expected)
    assert _same_bits(stored.expand(slice(4, 8)), expected[1])
    assert _same_bits(SelectedRows(stored, slice(8, 12), (4, 64)).expand([3, 1]), expected[2][[3, 1]])


def test_a_vector_is_read_by_entries(tmp_path: Path) -> None:
    raw = _raw(GGMLQuantizationType.F32, (32,))
    stored = _stored(tmp_path / "m.gguf", GGMLQuantizationType.F32, raw)
    expected = _expected(raw, GGMLQuantizationType.F32)
    assert torch.equal(stored.expand(), expected)
    assert torch.equal(stored.expand([5, 1]), expected[[5, 1]])
    assert torch.equal(stored.expand(slice(4, 9)), expected[4:9])
    assert stored.code_format is None


CODED = {"Q4_0": (4, 32), "Q4_1": (4, 32), "Q4_K": (4, 32), "Q6_K": (6, 16), "MXFP4": (6, 16)}


@pytest.mark.parametrize("name", CODED)
def test_types_of_four_and_six_bits_are_read_in_their_own_codes(name: str, tmp_path: Path) -> None:
    kind = GGMLQuantizationType[name]
    raw = _raw(kind, (ROWS, WIDTH))
    stored = _stored(tmp_path / "m.gguf", kind, raw)
    assert stored.code_format == CodeFormat(*CODED[name])
    blocks = stored.codes([5, 2])
    for found, expected in (
        (blocks, group_codes(kind, CODE_FORMATS[kind], raw[[5, 2]])),
        (stored.codes(), group_codes(kind, CODE_FORMATS[kind], raw)),
    ):
        for part in ("codes", "scales", "zeros"):
            torch.testing.assert_close(getattr(found, part), getattr(expected, part), rtol=0, atol=0, equal_nan=True)


def test_other_types_have_no_codes(tmp_path: Path) -> None:
    for kind in set(TYPES) - {GGMLQuantizationType[name] for name in CODED}:
        assert _stored(tmp_path / "m.gguf", kind, _raw(kind, (1, 256))).code_format is None


def test_expanding_takes_no_memory_beside_the_result(tmp_path: Path) -> None:
    raw = np.zeros((20000, 34 * 8), np.uint8)  # 5 million numbers
    stored = _stored(tmp_path / "m.gguf", GGMLQuantizationType.Q8_0, raw)
    stored.expand(slice(0, 10))  # whatever the library prepares once
    tracemalloc.start()
    try:
        stored.expand()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20  # NumPy's arrays; the result, 20 MB, is torch's


@pytest.mark.parametrize("kind", [GGMLQuantizationType.I32, GGMLQuantizationType.NVFP4], ids=lambda kind: kind.name)
def test_a_type_that_is_not_read_is_refused_by_name(kind: GGMLQuantizationType, tmp_path: Path) -> None:
    path = RawFile(tensors=[tensor("w", (64,), int(kind))], data=bytes(256)).write(tmp_path / "m.gguf")
    with pytest.raises(CheckpointError, match=rf"m\.gguf: w is {kind.name}, a type that is not supported"):
        GgufTensor(read_header(path).tensors["w"])


def test_a_file_that_was_cut_short_after_it_was_opened_is_refused(tmp_path: Path) -> None:
    stored = _stored(tmp_path / "m.gguf", GGMLQuantizationType.F32, _raw(GGMLQuantizationType.F32, (4, 64)))
    path = tmp_path / "m.gguf"
    path.write_bytes(path.read_bytes()[:-512])
    with pytest.raises(CheckpointError, match=r"m\.gguf: w cannot be read"):
        stored.expand()
