"""`cede doctor`: what it says of a machine, and that its checks pass on this one."""

from __future__ import annotations

import json
import platform
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

import web.selftest
from runtime.selftest import machine
from runtime.selftest.findings import Mismatch
from runtime.selftest.parity import Parity
from runtime.store.resolve import resolve_model
from tests.fakes.kv_blocks import chain, open_tier, put_all
from tests.live.server import command, environment
from tests.models.checkpoints import FAMILIES
from web.commands.doctor import doctor
from web.selftest import Sizes

SMALL = Sizes(
    prompt=40, tokens=8, rounds=1, generated=16, streams=(1, 2), depth=8, steps=4, prefill=32, read_bytes=2**20
)
GROUPS = ["model", "parity", "cancellation", "throughput", "operators"]


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The self-test is small, and this process keeps its number of threads."""
    monkeypatch.setattr(web.selftest, "Sizes", lambda: SMALL)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(doctor, arguments)


# --- the machine --------------------------------------------------------------------------------------------------


def test_without_options_it_says_what_is_here() -> None:
    result = run()
    assert result.exit_code == 0
    for said in (f"torch                {torch.__version__}", "trio ", "hypercorn ", "chosen device", "chosen dtype"):
        assert said in result.stdout
    assert re.search(r"^embedded model +loads: Qwen3ForCausalLM, 5 layers", result.stdout, re.MULTILINE)
    assert "PASS" not in result.stdout


def test_a_folder_of_kv_is_looked_into(tmp_path: Path) -> None:
    with open_tier(tmp_path) as tier:
        put_all(tier, chain(3))
    result = run("--kv-dir", str(tmp_path))
    assert "KV folder            3 blocks of 1 model, 36 KiB, 0 irregular" in result.stdout
    assert str(tmp_path) not in result.stdout


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    result = run("--device", "mps")
    assert result.exit_code == 1
    assert "'mps' is not available" in result.stderr


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    result = run("--json", str(tmp_path / "nowhere" / "report"))
    assert result.exit_code == 2
    assert "No such file or directory" in result.stderr
    assert result.stdout == ""


def test_a_mac_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins for what only a Mac can answer."""
    asked: list[list[str]] = []

    def answer(command: list[str], **how: object) -> SimpleNamespace:
        asked.append(command)
        return SimpleNamespace(stdout="Apple M2\n")

    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("15.1", ("", "", ""), "arm64"))
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(subprocess, "run", answer)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "get_name", lambda: "Apple M2")
    monkeypatch.setattr(torch.backends.mps, "get_core_count", lambda: 10)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 16 * 2**30)
    facts = machine.describe_machine() | machine.describe_choice("auto", "auto", "bfloat16")
    assert asked == [["sysctl", "-n", "machdep.cpu.brand_string"]]
    assert facts["system"] == "Darwin 15.1 arm64"
    assert facts["processor"] == "Apple M2"
    assert facts["device mps"] == "Apple M2, 10 cores, 16 GiB recommended at most"
    assert facts["chosen device"] == "mps: mps comes first"
    assert facts["chosen dtype"] == "bfloat16: the checkpoint's own"


# --- the self-test ------------------------------------------------------------------------------------------------


def test_every_check_passes_on_this_cpu(tmp_path: Path) -> None:
    result = run("--self-test", "--device", "cpu", "--dtype", "float32", "--json", str(tmp_path / "report"))
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "report").read_text())
    assert report["schema"] == {"name": "cede doctor", "version": 1}
    assert report["result"] == "PASS"
    assert list(dict.fromkeys(check["group"] for check in report["checks"])) == GROUPS
    skipped = {check["name"] for check in report["checks"] if check["status"] == "SKIP"}
    assert skipped == {"single rows", "few states", "steps ahead", "one read a step", "no fallback to the CPU"}
    figures = {check["name"]: check["figures"] for check in report["checks"]}
    assert figures["chunks"]["worst_error"] < figures["chunks"]["tolerance"]
    for phase in ("prefill", "decode", "draft", "verify"):
        assert figures[f"in {phase}"]["layers_after_cancel"] <= 1
        assert figures[f"in {phase}"]["reused_tokens"] > 0
    assert figures["hang-up in prefill"]["kept_tokens"] > 0
    assert figures["decode, 2 streams"]["tokens_per_second"] > 0
    passed = len(figures) - len(skipped)
    assert f"{passed} PASS, 0 FAIL, {len(skipped)} SKIP" in result.stdout
    for name in (str(Path.home()), str(resolve_model(None)), "/"):
        assert not re.search(rf"(?<!\w){re.escape(name)}\w", json.dumps(report)), name


def test_a_check_that_fails_is_reported_and_the_rest_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def finds(parity: Parity) -> Any:  # noqa: ANN401
        raise Mismatch("a row is wrong", {"worst_error": 0.5})

    def raises(parity: Parity) -> Any:  # noqa: ANN401
        return parity.compare(torch.ones(2, 3), torch.ones(1))

    monkeypatch.setattr(web.selftest, "PARITY", {"finds": finds, "raises": raises, "chunks": Parity.chunks})
    result = run("--self-test", "--dtype", "float32", "--device", "cpu", "--json", "-")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["result"] == "FAIL"
    checks = {check["name"]: check for check in report["checks"]}
    assert (checks["finds"]["status"], checks["finds"]["problem"]) == ("FAIL", "a row is wrong")
    assert checks["finds"]["figures"] == {"worst_error": 0.5}
    assert checks["raises"]["status"] == "FAIL"
    assert re.match(r"runtime\.selftest\.parity:\d+", checks["raises"]["where"][-1])
    assert checks["chunks"]["status"] == checks["in decode"]["status"] == "PASS"
    assert "FAIL  parity: finds" in result.stderr


def test_a_model_of_a_short_context_is_refused(tmp_path: Path) -> None:
    FAMILIES["llama"](tmp_path)
    result = run("--self-test", "--model", str(tmp_path))
    assert result.exit_code == 1
    assert "the self-test needs a context of 1024 tokens; the model's is 256" in result.stderr


def test_a_model_that_cannot_be_loaded_on_the_device_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("out of memory at /home/somebody/model")

    monkeypatch.setattr(web.selftest, "load_model", fail)
    result = run("--self-test", "--device", "cpu")
    assert result.exit_code == 1
    assert "FAIL  model: load" in result.stdout
    assert "RuntimeError: out of memory at (path)" in result.stdout


def test_ctrl_c_ends_it_at_once() -> None:
    doctor = command("doctor", "--self-test")
    with subprocess.Popen(doctor, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("PASS"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait() == 128 + signal.SIGINT
