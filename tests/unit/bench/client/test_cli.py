"""The command line of `cede bench`, also against real servers."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.client import cli
from bench.client.command import bench
from bench.client.harness import runner
from bench.client.harness.figures import Record
from bench.client.harness.targets import Running, Target
from bench.client.scenarios import SCENARIOS
from tests.fakes.bench import Behaviour, open_server, running
from tests.live.server import Server, command, environment
from tests.unit.bench.client.harness.open_servers import free_port
from web.commands.main import main


def test_every_scenario_is_there() -> None:
    wanted = (
        "throughput sampling prefill depth hangup retry impatience cascade neighbours goodput autocomplete cache "
        "speculate soak hostile priorities nudge"
    )
    assert sorted(SCENARIOS) == sorted(wanted.split())


# --- the command line -----------------------------------------------------------------------------------------------


def test_every_size_is_an_option() -> None:
    group = cli.run_group
    for name, scenario in SCENARIOS.items():
        options = {option.name for option in group.commands[name].params}
        assert options > {field.name for field in dataclasses.fields(scenario)}, name  # type: ignore[arg-type]
    shown = CliRunner().invoke(bench, ["run", "throughput", "--help"]).output
    assert "Streams at a time.  [default: 1,2,4,8]" in " ".join(shown.split()).replace(". [", ".  [")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "at least one target"),
        (["--target", "a=http://192.0.2.1:80"], "--allow-remote"),
        (["--target", "a=http://127.0.0.1:1", "--target", "a=http://127.0.0.1:2"], "different name"),
        (["--target", "a"], "NAME=URL"),
        (["--streams", "1,x", "--target", "a=http://127.0.0.1:1"], "not a list of whole numbers"),
        (["--target", "a=http://127.0.0.1:1"], "does not answer"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(bench, ["run", "throughput", "--out", str(tmp_path), *arguments])
    assert result.exit_code in (1, 2)
    assert complaint in result.output


def test_a_target_of_which_there_is_no_figure_is_a_failed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def open_fake(target: Target, log: Path) -> AsyncIterator[Running]:
        async with open_server(Behaviour(decode_seconds=0, fails=404 if target.name == "bad" else 0)) as server:
            yield running(server, target.name)

    monkeypatch.setattr(runner, "open_target", open_fake)
    arguments = ["--streams", "1", "--rounds", "1", "--out", str(tmp_path), "--target", "good=http://127.0.0.1:1"]
    result = CliRunner().invoke(bench, ["run", "throughput", *arguments])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(bench, ["run", "throughput", *arguments, "--target", "bad=http://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "round 1, bad: HTTP 404" in result.output
    assert "Error: no turn of bad came to its end" in result.output
    assert len(Record.load(tmp_path / "throughput.json").samples) == 1


def test_without_the_extra_a_scenario_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    for arguments in (["run", "throughput", "--target", "a=http://127.0.0.1:1"], ["report", str(tmp_path)]):
        result = CliRunner().invoke(main, ["bench", *arguments])
        assert result.exit_code == 1
        assert result.output == "Error: this needs matplotlib: pip install 'cede[bench]'\n"


def test_the_help_needs_no_extra() -> None:
    script = (
        "import sys; sys.modules.update(dict.fromkeys(('matplotlib', 'psutil', 'transformers')))\n"
        "from bench.client.command import bench; bench(sys.argv[1:])"
    )
    for arguments in ([], ["run", "--help"], ["run", "soak", "--help"], ["targets", "--help"]):
        done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
        assert "Usage: cede bench" in done.stdout + done.stderr, done.stderr


def test_a_folder_with_something_else_in_it(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    result = CliRunner().invoke(bench, ["report", str(tmp_path)])
    assert "other.json is not a result" in result.output


# --- for real -------------------------------------------------------------------------------------------------------


def test_a_real_server_is_measured(four_slots: Server, tmp_path: Path) -> None:
    """Three scenarios, two rounds in one of them, and the report of all."""
    # On a loaded machine short requests may never be as quick as they once were: that is waited for a second at most.
    common = ["--target", f"cede={four_slots.url}", "--out", str(tmp_path), "--limit", "1", "--rounds"]
    runs = [
        ["throughput", "--streams", "1,2", "--tokens", "8", *common, "2"],
        # Early in a long prompt, so that a machine that has just become faster has not read it by then.
        ["hangup", "--prompt", "3000", "--moment", "0.06", "--beside", "0", *common, "1"],
        ["retry", "--prompt", "3000", "--moment", "0.06", *common, "1"],
    ]
    for arguments in runs:
        result = CliRunner().invoke(bench, ["run", *arguments])
        assert result.exit_code == 0, result.output
    hangup, retry, throughput = [Record.load(path) for path in sorted(tmp_path.glob("*.json"))]
    failures = [failure.why for record in (hangup, retry, throughput) for failure in record.failures]
    assert [why for why in failures if "still busy" not in why] == []
    assert len(throughput.samples) == 4
    values = {sample.figure.key: sample.figure.value for sample in (*hangup.samples, *retry.samples)}
    assert ("until free, by receipt", "streaming, alone") in values
    assert values["computed again", "in the prefill"] <= 64
    assert values["computed again", "in the response"] == 0
    assert (tmp_path / "report.html").stat().st_size > 1000


@pytest.fixture
def port() -> Iterator[int]:
    with free_port() as kept:
        yield kept


def test_a_target_is_started_and_stopped(tmp_path: Path, port: int) -> None:
    serve = command("serve", "--port", str(port), "--log-level", "warning")
    (tmp_path / "targets.toml").write_text(
        f'[ours]\nurl = "http://127.0.0.1:{port}"\nready = "/health"\ncommand = {json.dumps(serve)}\n'
        f"environment = {{ PYTHONPATH = {json.dumps(environment()['PYTHONPATH'])} }}\n"
    )
    arguments = ["--targets", str(tmp_path / "targets.toml"), "--out", str(tmp_path / "out"), "--rounds", "1"]
    result = CliRunner().invoke(bench, ["run", "throughput", "--streams", "1", "--tokens", "4", *arguments])
    assert result.exit_code == 0, result.output
    record = Record.load(tmp_path / "out" / "throughput.json")
    assert {sample.figure.name for sample in record.samples} == {"throughput", "memory before", "memory, most"}
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=1)


def test_a_real_server_is_attacked(four_slots: Server, tmp_path: Path) -> None:
    """Small attacks, and no verdict: a busy machine holds tokens up as well."""
    attacks = "a long name,60 large bodies,1100 HTTP/2 requests,deep nesting"
    sizes = ["--scale", "0.002", "--tokens", "200", "--seconds", "0.2", "--pause", "0.1", "--attacks", attacks]
    common = ["--target", f"cede={four_slots.url}", "--out", str(tmp_path), "--limit", "1", "--rounds", "1"]
    result = CliRunner().invoke(bench, ["run", "hostile", *sizes, *common])
    assert result.exit_code == 0, result.output
    record = Record.load(tmp_path / "hostile.json")
    assert [failure.why for failure in record.failures if "still busy" not in failure.why] == []
    found = {sample.figure.key: sample.figure.value for sample in record.samples}
    assert {case for name, case in found if name == "withstood"} == set(attacks.split(","))
    assert found["answered no answer", "60 large bodies"] == 60
    assert found["answered 200", "1100 HTTP/2 requests"] == 2
    assert found["answered 400", "deep nesting"] == 2
    assert ("memory grew, at most", "a long name") in found
    assert not any(name == "the neighbour was broken off" for name, _ in found)
