"""GGUF files with something changed: keys set or left out, tensors added."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter


def edited(path: Path, values: dict[str, Any] | None = None, tensors: dict[str, Any] | None = None) -> Path:
    """Write the file anew; a value of None leaves its key out, an array of None its tensor."""
    reader = GGUFReader(path)
    fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    writer = GGUFWriter(path.with_suffix(".edited"), "", use_temp_file=False)
    writer.kv_data[0].clear()
    for name, field in fields.items():
        if name not in (values or {}):
            kinds = field.types
            writer.add_key_value(name, field.contents(), kinds[0], sub_type=kinds[-1] if len(kinds) > 1 else None)
    for name, value in (values or {}).items():
        if isinstance(value, list):
            writer.add_array(name, value)
        elif value is not None:
            writer.add_key_value(name, value, GGUFValueType.get_type(value))
    for tensor in reader.tensors:
        if tensor.name not in (tensors or {}):
            writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
    for name, array in (tensors or {}).items():
        if array is not None:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.with_suffix(".edited").rename(path)


def with_tensor(path: Path, name: str) -> Path:
    """Add a vector of zeros."""
    return edited(path, tensors={name: np.zeros(32, np.float32)})
