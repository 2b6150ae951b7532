"""Suites: which tests a newcomer waits for, and which the rest are.

`quick` is what README's command runs: the core under every interleaving, one client of each API, and what a hang-up, a
stall and a retry do to a real server.  `rest` is what takes its time: most of what needs processes, browsers, real
models, compilers or a cluster, and the mutants.  `full` is both.
"""

from __future__ import annotations

SUITES = ("quick", "rest", "full")

IN = {
    "": "quick",
    "hostile": "rest",
    "repository/test_wheel.py": "rest",
    "live": "rest",
    "live/cancels/test_hangup.py": "quick",
    "live/cancels/test_queued_cancel.py": "quick",
    "live/cancels/test_retry_goes_on.py": "quick",
    "live/cancels/test_stall.py": "quick",
    "live/clients/openai_python": "quick",
    "live/clients/test_anthropic_client.py": "quick",
    "live/clients/test_ollama_client.py": "quick",
    "live/commands/test_completion.py": "quick",
    "live/embeddings": "quick",
    "live/hybrid/test_retry_goes_on.py": "quick",
    "live/infill": "quick",
    "live/kv/test_in_slots.py": "quick",
    "live/process/test_failed_starts.py": "quick",
    "mutants/test_mutants.py": "rest",
    "real": "rest",
    "scenarios/calls": "rest",
    "scenarios/cluster": "rest",
    "scenarios/deterministic": "rest",
    "scenarios/devices/test_host_reads.py": "rest",
    "scenarios/families": "rest",
    "scenarios/grammar/test_outputs.py": "rest",
    "scenarios/ranks": "rest",
    "soak": "rest",
    "unit/bench": "rest",
    "unit/runtime/devices/parallel": "rest",
    "unit/runtime/devices/native/test_kernels_neon.py": "rest",
    "unit/runtime/devices/native/test_kernels_sanitized.py": "rest",
    "unit/runtime/nn/layers/test_native_layer_kinds.py": "rest",
    "unit/runtime/nn/test_model.py": "rest",
    "unit/runtime/loading/ranks": "rest",
    "unit/runtime/devices/single_rows/test_check.py": "rest",
    "unit/runtime/store/packages": "rest",
    "unit/web/cluster": "rest",
    "unit/web/serving/test_ranks.py": "rest",
}
"""By files and folders below tests/; what stands nearest to a file decides."""


def is_in_suite(path: str, suite: str) -> bool:
    """Return whether a file is of a suite.

    Args:
        path: from tests/, with slashes.
        suite: one of `SUITES`.
    """
    parts = path.split("/")
    nearest = next(IN[up] for n in range(len(parts), -1, -1) if (up := "/".join(parts[:n])) in IN)
    return suite in (nearest, "full")
