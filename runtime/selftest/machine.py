"""Description of the machine: for a report that goes to others, so without names of hosts and people."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

import torch

from runtime.checkpoint.open import open_checkpoint
from runtime.common.host_memory import available_memory
from runtime.common.processor import processor_name
from runtime.common.units import counted, format_size
from runtime.devices.native.kernels import describe_kernels
from runtime.errors import CedeError
from runtime.kv.disk.folder import opened_root, roots, scan
from runtime.loading.fit import fits_of
from runtime.loading.options import LoadOptions
from runtime.nn.weights import load_weights
from runtime.selftest.findings import without_paths
from runtime.step.device import has_bfloat16_arithmetic, select_device, select_dtype
from runtime.store.resolve import resolve_model

if TYPE_CHECKING:
    from pathlib import Path

Facts: TypeAlias = dict[str, str]

LIBRARIES = ("cede", "torch", "trio", "hypercorn", "quart-trio")


def describe_machine() -> Facts:
    """Versions, system, processor, memory, threads and devices, by name."""
    facts = {name: _version(name) for name in LIBRARIES} | {"torch": torch.__version__}
    facts |= {
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": _system(),
        "processor": processor_name(),
        "cores": str(os.cpu_count()),
        "memory": f"{format_size(_installed_memory())}, {format_size(available_memory())} free",
        "threads": f"{torch.get_num_threads()}; a small model runs on one unless --threads says otherwise",
        "bfloat16 on the CPU": "in hardware" if has_bfloat16_arithmetic() else "emulated, so float32 is used",
    }
    facts["kernels of its own"] = describe_kernels()
    return facts | {f"device {name}": about for name, about in _devices().items()}


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:  # cede itself, where it runs from a checkout
        return "not installed"


def describe_choice(device: str, dtype: str, checkpoint_dtype: str | None) -> Facts:
    """Return what these settings, names or `auto`, come to here, and why.

    Raises:
        CheckpointError: the device asked for is not available.
    """
    chosen = select_device(device)
    if device != "auto":
        because = "it was asked for"
    elif chosen.type == "mps":
        because = "mps comes first"
    else:
        because = "there is no mps" + (", and no cuda" if chosen.type == "cpu" else "")
    facts = {"chosen device": f"{chosen.type}: {because}"}
    name = str(select_dtype(dtype, chosen, checkpoint_dtype)).removeprefix("torch.")
    if dtype != "auto":
        because = "it was asked for"
    elif chosen.type == "cpu" and not has_bfloat16_arithmetic():
        because = "this CPU has no bfloat16 arithmetic, or this PyTorch does not use it"
    else:
        because = "the checkpoint's own" if checkpoint_dtype else "the checkpoint names none"
    return facts | {"chosen dtype": f"{name}: {because}"}


def describe_fit(path: Path, device: str, dtype: str) -> Facts:
    """Return what a model's weights are on disk, and what they take in each form of `--quantize`.

    Raises:
        CheckpointError: it is not a model that cede loads, or there is no such device.
    """
    checkpoint = open_checkpoint(path)
    stored: Counter[str] = Counter()
    for tensor in checkpoint.tensors().values():
        stored[tensor.form] += tensor.num_bytes
    facts = {"stored": ", ".join(f"{form} {format_size(size)}" for form, size in stored.most_common())}
    for fit in fits_of(LoadOptions(path, device=device, dtype=dtype), checkpoint.config, checkpoint.tensors()):
        facts[f"with --quantize {fit.quantize}"] = str(fit)
    return facts


def describe_embedded() -> str:
    """Return whether the model that comes with cede is there and can be loaded."""
    try:
        checkpoint = open_checkpoint(resolve_model(None))
        config = checkpoint.config
        weights = load_weights(checkpoint, device="cpu", dtype=torch.float32)
    except CedeError as error:
        return f"cannot be loaded: {without_paths(str(error))}"
    return f"loads: {config.architecture}, {config.num_layers} layers, {format_size(weights.nbytes)} in float32"


def describe_kv_folder(folder: Path) -> str:
    """Return what lies in a folder of KV blocks.  Raises KVFolderError."""
    models = blocks = size = irregular = 0
    for key in roots(folder):
        with opened_root(folder, key) as descriptor:
            found, others = scan(descriptor)
        models, blocks, irregular = models + 1, blocks + len(found), irregular + len(others)
        size += sum(block.nbytes for block in found)
    return f"{counted(blocks, 'block')} of {counted(models, 'model')}, {format_size(size)}, {irregular} irregular"


def _devices() -> Facts:
    devices = {"cpu": f"{torch.backends.cpu.get_cpu_capability()} kernels"}
    for index in range(torch.cuda.device_count()):
        memory = format_size(torch.cuda.get_device_properties(index).total_memory)
        devices[f"cuda:{index}"] = f"{torch.cuda.get_device_name(index)}, {memory}"
    if torch.backends.mps.is_available():
        memory = format_size(torch.mps.recommended_max_memory())
        name, cores = torch.backends.mps.get_name(), torch.backends.mps.get_core_count()
        devices["mps"] = f"{name}, {cores} cores, {memory} recommended at most"
    elif torch.backends.mps.is_built():
        devices["mps"] = "built in, but not available"
    return devices


def _installed_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _system() -> str:
    """Return its version without what a builder of kernels may have put behind it."""
    version = platform.mac_ver()[0] or re.split(r"[^\d.]", platform.release())[0]
    return f"{platform.system()} {version} {platform.machine()}"
