"""`cede doctor`: what it says of a machine, that its checks pass on this one, and that they can fail."""

from __future__ import annotations

import json
import platform
import re
import signal
import subprocess
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
import trio
from click.testing import CliRunner

import web.selftest.checks
from actors.core.receipts import CancelReason, Receipt
from actors.core.slots import SlotState
from actors.engine import EngineConfig, open_engine
from actors.selftest.cancel_checks import CancelChecks, Limits, StepWatch, judge
from runtime.checkpoint.locate import resolve_model
from runtime.loading.load import LoadOptions, describe_model, load_model
from runtime.sampling.sampler import draw
from runtime.selftest import machine
from runtime.selftest.findings import Finding, Mismatch, NotHere, Status, from_error, without_paths
from runtime.selftest.parity import Comparison, Parity
from runtime.step.executor import InlineExecutor
from tests.fakes.kv_blocks import chain, open_tier, put_all
from tests.live.server import command, environment
from tests.models.checkpoints import FAMILIES
from web.commands.doctor import doctor, finding_lines
from web.selftest.checks import TEXT, Sizes, _check_fallback

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from click.testing import Result

    from runtime.checkpoint.config import ModelConfig
    from runtime.loading.served import ServedModel
    from runtime.nn.model import Transformer
    from runtime.sampling.draws import Draws
    from runtime.sampling.sampler import Drawn
    from runtime.step.step import Segment, StepResult

SMALL = Sizes(
    prompt=40, tokens=8, rounds=1, generated=16, streams=(1, 2), depth=8, steps=4, prefill=32, read_bytes=2**20
)
GROUPS = ["model", "parity", "cancellation", "throughput", "operators"]


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The self-test is small, and this process keeps its handler of Ctrl-C and its number of threads."""
    monkeypatch.setattr(web.selftest.checks, "Sizes", lambda: SMALL)
    handler, threads = signal.getsignal(signal.SIGINT), torch.get_num_threads()
    yield
    signal.signal(signal.SIGINT, handler)
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
    assert "KV folder            3 blocks of 1 models, 36 KiB, 0 irregular" in result.stdout
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
    assert skipped == {"one read a step", "no fallback to the CPU"}
    figures = {check["name"]: check["figures"] for check in report["checks"]}
    assert figures["chunks"]["worst_error"] < figures["chunks"]["tolerance"]
    for phase in ("prefill", "decode", "draft", "verify"):
        assert figures[f"in {phase}"]["layers_after_cancel"] <= 1
        assert figures[f"in {phase}"]["reused_tokens"] > 0
    assert figures["hang-up in prefill"]["kept_tokens"] > 0
    assert figures["decode, 2 streams"]["tokens_per_second"] > 0
    assert f"{len(figures) - 2} PASS, 0 FAIL, 2 SKIP" in result.stdout
    for name in (str(Path.home()), str(resolve_model(None)), "/"):
        assert not re.search(rf"(?<!\w){re.escape(name)}\w", json.dumps(report)), name


def test_a_check_that_fails_is_reported_and_the_rest_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*arguments: object) -> None:
        pass

    def finds(parity: Parity) -> Any:  # noqa: ANN401
        raise Mismatch("a row is wrong", {"worst_error": 0.5})

    def raises(parity: Parity) -> Any:  # noqa: ANN401
        return parity.compare(torch.ones(2, 3), torch.ones(1))

    monkeypatch.setattr(web.selftest.checks, "PARITY", {"finds": finds, "raises": raises, "chunks": Parity.chunks})
    monkeypatch.setattr(web.selftest.checks, "_cancellation", nothing)
    monkeypatch.setattr(web.selftest.checks, "_throughput", nothing)
    result = run("--self-test", "--dtype", "float32", "--device", "cpu", "--json", "-")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["result"] == "FAIL"
    checks = {check["name"]: check for check in report["checks"]}
    assert (checks["finds"]["status"], checks["finds"]["problem"]) == ("FAIL", "a row is wrong")
    assert checks["finds"]["figures"] == {"worst_error": 0.5}
    assert checks["raises"]["status"] == "FAIL"
    assert re.match(r"runtime\.parity:\d+", checks["raises"]["where"][-1])
    assert checks["chunks"]["status"] == "PASS"
    assert "FAIL  parity: finds" in result.stderr


def test_a_model_of_a_short_context_is_refused(tmp_path: Path) -> None:
    FAMILIES["llama"](tmp_path)
    result = run("--self-test", "--model", str(tmp_path))
    assert result.exit_code == 1
    assert "the self-test needs a context of 1024 tokens; the model's is 256" in result.stderr


def test_a_model_that_cannot_be_loaded_on_the_device_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("out of memory at /home/somebody/model")

    monkeypatch.setattr(web.selftest.checks, "load_model", fail)
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


# --- findings -----------------------------------------------------------------------------------------------------


def test_a_finding_tells_what_nurseries_wrapped_and_where_it_was() -> None:
    try:
        Comparison(0.1)(torch.ones(1), torch.ones(2, 2))
    except IndexError as error:
        finding = from_error("a", "b", 1.0, ExceptionGroup("", [ExceptionGroup("", [error])]))
    assert finding.status is Status.FAIL
    assert finding.problem is not None
    assert finding.problem.startswith("IndexError: ")
    assert finding.where[-1].startswith("runtime.selftest.parity:")
    assert finding_lines(finding)[2].startswith("      at runtime.selftest.parity:")


def test_what_is_not_here_is_skipped() -> None:
    assert from_error("a", "b", 1.0, NotHere("why")) == Finding("a", "b", Status.SKIP, 1.0, problem="why")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("cannot read /home/ann/model/config.json: no", "cannot read (path): no"),
        ("'/Users/ann/m' is C:\\Users\\ann", "'(path)' is (path)"),
        ("in ~/models/x", "in (path)"),
        ("54 tokens/s and 1/2, at http://127.0.0.1:80/v1", "54 tokens/s and 1/2, at http://127.0.0.1:80/v1"),
    ],
)
def test_no_path_is_left(text: str, left: str) -> None:
    assert without_paths(text) == left


# --- what parity notices ------------------------------------------------------------------------------------------


def test_scores_that_are_off_are_named_by_position() -> None:
    expected = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
    compare = Comparison(0.01)
    assert compare(expected + 3, expected)["near_ties"] == 0  # the same distribution
    for wrong in (expected[2].flip(0), torch.full((50,), torch.nan)):
        scores = expected.clone()
        scores[2] = wrong
        with pytest.raises(Mismatch, match=r"^after position 12 the scores are off by"):
            compare(scores, expected, first=10)


def test_another_token_is_forgiven_only_where_both_score_alike() -> None:
    expected = torch.zeros(1, 10000)
    expected[0, :2] = torch.tensor([50.0, 49.999])
    expected[0, 2:] = torch.linspace(-30, 30, 9998)
    swapped = expected.clone()
    swapped[0, :2] = swapped[0, :2].flip(0)
    assert Comparison(0.01)(swapped, expected)["near_ties"] == 1
    expected[0, 1] = swapped[0, 0] = 45.0
    with pytest.raises(Mismatch, match="token 1 is chosen in place of 0"):
        Comparison(0.01)(swapped, expected)


@pytest.fixture(scope="module")
def loaded() -> tuple[LoadOptions, ModelConfig, ServedModel]:
    options = LoadOptions(resolve_model(None), slots=4, context=512, device="cpu", dtype="float32", threads=1)
    served, config = describe_model(options, "embedded")
    return options, config, served


@pytest.fixture
def model(loaded: tuple[LoadOptions, ModelConfig, ServedModel]) -> Transformer:
    return load_model(*loaded[:2])


@pytest.fixture
def parity(model: Transformer, loaded: tuple[LoadOptions, ModelConfig, ServedModel]) -> Parity:
    options, config, served = loaded
    return Parity(model, load_model(options, config), served.tokenizer.encode(TEXT)[:40], 8)


def test_a_weight_that_is_wrong_is_noticed(model: Transformer, parity: Parity) -> None:
    parity.chunks()
    model.weights.embedding[:, :8] += 1
    with pytest.raises(Mismatch, match="the scores are off by"):
        parity.chunks()


def test_rows_that_are_not_written_are_noticed(
    model: Transformer, parity: Parity, monkeypatch: pytest.MonkeyPatch
) -> None:
    parity.trim_and_resume()
    write = model.kv.write

    def lose(layer: int, slot: int, start: int, rows: torch.Tensor) -> None:
        write(layer, slot, start, rows[:, :, :-1])

    monkeypatch.setattr(model.kv, "write", lose)
    for check in (parity.trim_and_resume, parity.mixed_batch):
        with pytest.raises(Mismatch):
            check()


def test_kv_that_is_not_moved_is_noticed(model: Transformer, parity: Parity, monkeypatch: pytest.MonkeyPatch) -> None:
    parity.moved_kv()
    monkeypatch.setattr(model.kv, "copy", lambda source, slot, start, end: model.kv._layers[3][:, slot].fill_(1))
    with pytest.raises(Mismatch, match="KV that was moved to slot 2"):
        parity.moved_kv()


def test_a_wrong_verdict_is_noticed(parity: Parity, monkeypatch: pytest.MonkeyPatch) -> None:
    parity.verify()

    def least(
        logits: torch.Tensor,
        adjusted: torch.Tensor,
        weights: torch.Tensor,
        draws: Draws,
        beside: torch.Tensor | None,
    ) -> tuple[list[Drawn], list[float]]:
        return draw(logits, -adjusted, weights, draws, beside)

    monkeypatch.setattr("runtime.sampling.acceptance.draw", least)
    with pytest.raises(Mismatch, match="the scores say"):
        parity.verify()


# --- what the checks of cancels notice ----------------------------------------------------------------------------


def _receipt(**fields: Any) -> Receipt:  # noqa: ANN401
    figures = dict.fromkeys(("cached_tokens", "wasted_tokens", "drafted_tokens", "accepted_tokens"), 0)
    figures |= {"prompt_tokens": 9, "computed_tokens": 4, "kept_tokens": 4, "layers_after_cancel": 1}
    times = {"detected_at": 10.0, "last_kernel_at": 10.002, "slot_freed_at": 10.005}
    return Receipt("id", 0, CancelReason.OPERATOR, **({"phase": "prefill"} | times | figures | fields))


def test_a_receipt_becomes_figures() -> None:
    figures = judge(_receipt(), "prefill", 1)
    assert figures["cancel_to_last_kernel_ms"] == pytest.approx(2)
    assert figures["cancel_to_slot_free_ms"] == pytest.approx(5)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"layers_after_cancel": 3}, "3 layers ended after the cancel"),
        ({"phase": "decode"}, "noticed in phase decode, not prefill"),
        ({"slot_freed_at": None}, "the slot was not freed"),
    ],
)
def test_a_receipt_that_must_not_be_is_noticed(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(Mismatch, match=says):
        judge(_receipt(**fields), "prefill", 1)


class Forgetful(InlineExecutor):
    """Whoever finds all of a prompt but its last token in a slot finds nothing there but zeros."""

    def __init__(self, model: Transformer, resident: int) -> None:
        super().__init__(model)
        self._kv, self._resident = model.kv, resident

    async def run_step(self, segments: Sequence[Segment], *, drafting: bool = False) -> StepResult:
        for segment in segments:
            if segment.start == self._resident and segment.sample is not None and not segment.sample.generated:
                for layer in self._kv._layers:
                    layer[:, segment.slot].zero_()
        return await super().run_step(segments, drafting=drafting)


async def test_tokens_that_differ_are_noticed(
    model: Transformer, loaded: tuple[LoadOptions, ModelConfig, ServedModel]
) -> None:
    text = loaded[2].tokenizer.encode(TEXT)
    limits = Limits(layers=1, tie=1e-3)
    for executor in (InlineExecutor(model), Forgetful(model, 63)):
        watch = StepWatch(executor)
        async with open_engine(watch, loaded[2], EngineConfig(slots=2, queue=2, chunk_tokens=64)) as engine:
            checks = CancelChecks(engine, watch, text, limits, tokens=24, rounds=1)
            if isinstance(executor, Forgetful):
                with pytest.raises(Mismatch, match="the retry was told token"), trio.fail_after(60):
                    await checks.cancel_in(SlotState.DECODE)
            else:
                figures = await checks.cancel_in(SlotState.DECODE)
                assert figures["reused_tokens"] == 63
                assert (await checks.cancel_queued())["layers_after_cancel"] == 0


async def test_computing_on_the_cpu_in_place_of_mps_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(web.selftest.checks.FALLBACK, raising=False)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warnings.warn("something else", stacklevel=1)
        assert await _check_fallback("mps", warned) == {"warnings": 1}
        warnings.warn("aten::x is not supported on the MPS backend and will fall back to run on the CPU", stacklevel=1)
        with pytest.raises(Mismatch, match="aten::x"):
            await _check_fallback("mps", warned)
    monkeypatch.setenv(web.selftest.checks.FALLBACK, "1")
    with pytest.raises(Mismatch, match="is set"):
        await _check_fallback("mps", [])
    with pytest.raises(NotHere):
        await _check_fallback("cpu", [])
