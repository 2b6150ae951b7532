"""Header as `read_header` reads it, beside the library's own reader, and what it refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter

from runtime.checkpoint.gguf.header import MAX_ENTRIES, MAX_KEYS, MAX_TENSORS, read_header
from runtime.errors import CheckpointError
from tests.models.gguf.raw import (
    ARRAY,
    BOOL,
    F32,
    I32,
    STRING,
    U32,
    U64,
    RawFile,
    entry,
    list_of,
    number,
    tensor,
    text,
)
from tests.rows import every_row

if TYPE_CHECKING:
    from pathlib import Path

ARCHITECTURE = entry("general.architecture", STRING, "llama")


def _written(path: Path) -> Path:
    """A file by the library's writer, with a value of every type."""
    writer = GGUFWriter(path, "llama")
    for kind in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"):
        getattr(writer, f"add_{kind}")(f"a.{kind}", 100)
    writer.add_int32("a.negative", -3)
    writer.add_float32("a.float32", 1e-5)
    writer.add_float64("a.float64", 1e-5)
    writer.add_bool("a.bool", True)
    writer.add_string("a.string", "größer\n")
    writer.add_array("a.strings", ["one", "", "東京"])
    writer.add_array("a.ints", [1, -2, 3])
    writer.add_array("a.floats", [0.5, -2.0])
    writer.add_array("a.bools", [True, False])
    writer.add_tensor("plain", np.arange(12, dtype=np.float32).reshape(3, 4))
    writer.add_tensor("half", np.arange(5, dtype=np.float16))
    blocks = gguf.quantize(np.ones((2, 3, 64), np.float32), GGMLQuantizationType.Q8_0)
    writer.add_tensor("packed", blocks, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_metadata_are_those_that_the_library_reads(tmp_path: Path) -> None:
    path = _written(tmp_path / "model.gguf")
    found = read_header(path).metadata
    theirs = {name: value for name, value in gguf.GGUFReader(path).fields.items() if not name.startswith("GGUF.")}
    assert list(found) == list(theirs)
    for name, value in theirs.items():
        expected = value.contents()
        assert found[name] == (pytest.approx(expected) if isinstance(expected, float) else expected), name


def test_a_float32_is_the_decimal_that_was_written(tmp_path: Path) -> None:
    assert read_header(_written(tmp_path / "model.gguf")).metadata["a.float32"] == 1e-5


def test_tensors_lie_where_the_library_finds_them(tmp_path: Path) -> None:
    path = _written(tmp_path / "model.gguf")
    found = read_header(path).tensors
    reader = gguf.GGUFReader(path)
    assert [(t.name, t.kind, t.shape[::-1], t.offset, t.num_bytes) for t in found.values()] == [
        (t.name, t.tensor_type, tuple(t.shape), t.data_offset, t.n_bytes) for t in reader.tensors
    ]


def test_version_2_is_read_and_so_is_another_alignment(tmp_path: Path) -> None:
    raw = RawFile(
        [ARCHITECTURE, entry("general.alignment", U32, 64)],
        [tensor("a"), tensor("b", offset=64)],
        bytes(96),
        version=2,
        alignment=64,
    )
    found = read_header(raw.write(tmp_path / "model.gguf"))
    assert found.tensors["b"].offset % 64 == 0
    assert found.tensors["b"].offset - found.tensors["a"].offset == 64


REFUSED = {
    "it is no GGUF file": RawFile(magic=b"GGML"),
    "is of version 1 of GGUF": RawFile(version=1),
    "is of version 4 of GGUF": RawFile(version=4),
    "is big-endian": RawFile(version=3 << 24),
    "tensors and 0 keys are more than a model has": RawFile(num_tensors=MAX_TENSORS + 1),
    f"0 tensors and {MAX_KEYS + 1} keys are more": RawFile(num_entries=MAX_KEYS + 1),
    "ends within a key: it is cut short": RawFile(num_entries=2, data=b"", alignment=1),
    "ends within a tensor's name: it is cut short": RawFile(num_tensors=2, data=b"", alignment=1),
    "ends within a key": RawFile([number("Q", 1 << 63)]),
    "ends within a.b": RawFile([text("a.b") + number("I", STRING) + number("Q", (1 << 64) - 1)]),
    "ends within a.list": RawFile([entry("a.list", ARRAY, list_of(U64, 1 << 20, b""))]),
    "ends within a.words": RawFile([entry("a.words", ARRAY, list_of(STRING, 3, text("one") + number("Q", 1 << 40)))]),
    "a.long has 4194305 entries": RawFile([entry("a.long", ARRAY, list_of(U32, MAX_ENTRIES + 1, b""))]),
    "a.huge has 9223372036854775808 entries": RawFile([entry("a.huge", ARRAY, list_of(STRING, 1 << 63, b""))]),
    "a.nested is a list of lists": RawFile([entry("a.nested", ARRAY, list_of(ARRAY, 1, list_of(ARRAY, 1, b"")))]),
    "a.kind has the unknown type 13": RawFile([entry("a.kind", 13, b"")]),
    "a.kinds has the unknown type 99": RawFile([entry("a.kinds", ARRAY, list_of(99, 1, b""))]),
    "a.flag is 2, which is neither false nor true": RawFile([entry("a.flag", BOOL, 2)]),
    "general.architecture is there twice": RawFile([ARCHITECTURE, ARCHITECTURE]),
    "a key is not UTF-8": RawFile([entry(b"\xff", U32, 1)]),
    "a.text is not UTF-8": RawFile([entry("a.text", STRING, text(b"\xc3"))]),
    "a.texts has an entry that is not UTF-8": RawFile([entry("a.texts", ARRAY, list_of(STRING, 1, text(b"\xed\xa0")))]),
    "general.alignment is 0, which is no power of two": RawFile([entry("general.alignment", U32, 0)]),
    "general.alignment is 24, which is no power of two": RawFile([entry("general.alignment", U32, 24)]),
    "general.alignment is 32.0, and should be of type int": RawFile([entry("general.alignment", F32, 32.0)]),
    "general.alignment is -32, which": RawFile([entry("general.alignment", I32, -32)]),
    "w has 0 dimensions": RawFile(tensors=[tensor("w", ())]),
    "w has 5 dimensions": RawFile(tensors=[tensor("w", (1, 1, 1, 1, 1))]),
    "w has the impossible shape [-1]": RawFile(tensors=[tensor("w", (-1,))]),
    "w has the impossible shape [0, 4]": RawFile(tensors=[tensor("w", (4, 0))]),
    "w is of the unknown type 4": RawFile(tensors=[tensor("w", kind=4)]),
    "w has rows of 8 numbers, and Q8_0 has blocks of 32": RawFile(tensors=[tensor("w", kind=8)]),
    "w ends 4 bytes behind the end of the file": RawFile(tensors=[tensor("w", (9,))]),
    "w ends 340282366920938463389587631136930004964 bytes": RawFile(tensors=[tensor("w", ((1 << 63) - 1,) * 2)]),
    "w ends 18446744073709551584 bytes behind": RawFile(tensors=[tensor("w", offset=(1 << 64) - 32)]),
    "w is not aligned to 32 bytes": RawFile(tensors=[tensor("w", offset=8)], data=bytes(64)),
    "a overlaps another tensor": RawFile(tensors=[tensor("b"), tensor("a")]),
    "w is there twice": RawFile(tensors=[tensor("w"), tensor("w", offset=32)], data=bytes(64)),
}


@every_row("message, raw", REFUSED.items())
def test_what_is_malformed_is_refused_by_name(message: str, raw: RawFile, tmp_path: Path) -> None:
    path = raw.write(tmp_path / "bad.gguf")
    with pytest.raises(CheckpointError, match=re.escape(message)) as caught:
        read_header(path)
    assert str(path) in str(caught.value)


def test_a_file_that_ends_anywhere_is_refused(tmp_path: Path) -> None:
    whole = _written(tmp_path / "model.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in range(0, len(whole) - 64, 7):
        cut.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"cut\.gguf"):
            read_header(cut)


def test_no_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.gguf", tmp_path):
        with pytest.raises(CheckpointError, match="cannot be read"):
            read_header(path)
