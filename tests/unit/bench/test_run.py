"""Targets, rounds and the command line of `cede bench`."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import random
import re
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from click.testing import CliRunner

from bench.client import cli
from bench.client.command import bench
from bench.client.harness import runner
from bench.client.harness.client import Dialect
from bench.client.harness.figures import Record
from bench.client.harness.runner import Plan, begin_record, calibrate, prepare_turn, rotated, run
from bench.client.harness.targets import Target, TargetError, check_loopback, open_target, parse_target, read_targets
from bench.client.reports.report import markdown
from bench.client.scenarios import SCENARIOS
from bench.client.scenarios.throughput import Throughput
from tests.fakes.bench import Behaviour, Silence, client_of, open_server, running
from tests.live.server import Server, command, environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from trio.testing import MockClock

    from bench.client.harness.targets import Running
    from tests.fakes.bench import FakeServer

TINY = Throughput(streams=(1, 2), prompt=4, tokens=8)


# --- targets --------------------------------------------------------------------------------------------------------


def test_a_target_from_the_command_line() -> None:
    assert parse_target("a=http://127.0.0.1:1/") == Target("a", "http://127.0.0.1:1")
    for wrong in ("http://127.0.0.1:1", "=x", "a="):
        with pytest.raises(TargetError, match="NAME=URL"):
            parse_target(wrong)


def test_targets_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "targets.toml"
    path.write_text(
        """
        [one]
        url = "http://127.0.0.1:1"
        about = "the one"
        command = ["serve", "it"]
        ready = "/health"
        environment = { THREADS = "2" }
        token_ids = [5, 9]
        fields = { top_k = 1 }
        without_speculation = { drafts = 0 }
        headers = { Authorization = "Bearer sesame" }
        [two]
        url = "http://127.0.0.1:2"
        endpoint = "chat"
        model = "m"
        """
    )
    one, two = read_targets(path)
    assert one == Target(
        "one",
        "http://127.0.0.1:1",
        about="the one",
        command=("serve", "it"),
        ready="/health",
        environment={"THREADS": "2"},
        dialect=Dialect(
            model="",
            token_ids=range(5, 9),
            fields={"temperature": 0, "top_k": 1},
            without_speculation={"drafts": 0},
            headers={"Authorization": "Bearer sesame"},
        ),
    )
    assert two.dialect == Dialect(model="m", endpoint="chat", token_ids=None)


def test_the_readme_s_targets_are_targets(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[3] / "bench" / "README.md").read_text()
    path = tmp_path / "targets.toml"
    path.write_text("\n".join(re.findall("```toml\n(.*?)```", readme, re.DOTALL)))
    assert [target.name for target in read_targets(path)] == ["cede", "llama", "vllm", "mlx", "ollama"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1", "table with a url"),
        ("[a]\nabout = 'no url'", "table with a url"),
        ("[a]\nurl = 'http://127.0.0.1'\nreadyness = '/'", "unknown keys: readyness"),
        ("[a]\nurl = 'http://127.0.0.1'\nendpoint = 'responses'", "completions"),
        ("[a]\nurl = 'http://127.0.0.1'\nendpoint = 'chat'\nprompts = 'ids'", "no token ids"),
        ("[a", "targets.toml"),
    ],
)
def test_a_file_with_a_fault(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "targets.toml"
    path.write_text(text)
    with pytest.raises(TargetError, match=complaint):
        read_targets(path)


@pytest.mark.parametrize("host", ["127.0.0.1:80", "127.9.9.9", "[::1]:80", "localhost:80"])
def test_loopback_is_ours(host: str) -> None:
    check_loopback(Target("a", f"http://{host}"))


@pytest.mark.parametrize("host", ["192.0.2.1:80", "10.0.0.1", "[2001:db8::1]:80", "0.0.0.0"])
def test_other_machines_are_not(host: str) -> None:
    with pytest.raises(TargetError, match="--allow-remote"):
        check_loopback(Target("a", f"http://{host}"))


async def test_a_target_that_ends_before_it_is_ready(tmp_path: Path) -> None:
    target = Target("a", f"http://127.0.0.1:{free_port()}", command=(sys.executable, "-c", "print('oh'); exit(3)"))
    with pytest.RaisesGroup(TargetError, flatten_subgroups=True, allow_unwrapped=True) as caught:
        async with open_target(target, tmp_path / "a.log"):
            pass
    assert "status 3" in str(caught.value)
    assert (tmp_path / "a.log").read_text() == "oh\n"


async def test_a_target_that_is_not_there(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(TargetError, match="does not answer"):
        async with open_target(Target("a", url), tmp_path / "a.log"):
            pass
    with pytest.raises(TargetError, match="does not start"):
        async with open_target(Target("a", url, command=("/no/such/program",)), tmp_path / "a.log"):
            pass


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- rounds ---------------------------------------------------------------------------------------------------------


def opener(servers: dict[str, FakeServer], opened: list[str]) -> Callable[..., AbstractAsyncContextManager[Running]]:
    """`open_target` for servers that run in this process."""

    @asynccontextmanager
    async def open_fake(target: Target, log: Path) -> AsyncIterator[Running]:
        opened.append(target.name)
        yield running(servers[target.name], target.name)

    return open_fake


@pytest.mark.parametrize("exclusive", [False, True])
async def test_targets_take_turns(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exclusive: bool
) -> None:
    opened: list[str] = []
    targets = [Target("fast", "http://fake"), Target("slow", "http://fake")]
    async with open_server() as fast, open_server(Behaviour(decode_seconds=0.02)) as slow:
        monkeypatch.setattr(runner, "open_target", opener({"fast": fast, "slow": slow}, opened))
        plan = Plan(rounds=2, seed=3, exclusive=exclusive)
        record = begin_record(TINY, targets, plan)
        await run(TINY, targets, plan, record, logs=tmp_path, progress=Silence())
    assert opened == (["fast", "slow", "slow", "fast"] if exclusive else ["fast", "slow"])
    assert not record.failures
    assert [(s.target, s.round) for s in record.samples if s.figure.x == 1] == [
        ("fast", 0),
        ("slow", 0),
        ("slow", 1),
        ("fast", 1),
    ]
    assert record.parameters["streams"] == (1, 2)
    assert record.parameters["seed"] == 3
    assert record.about.startswith("Tokens per second")


async def test_what_was_found_before_the_end_is_kept(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan, targets = Plan(rounds=100, seed=3), [Target("fast", "http://fake")]
    record = begin_record(TINY, targets, plan)
    async with open_server() as fast:
        monkeypatch.setattr(runner, "open_target", opener({"fast": fast}, []))
        with trio.move_on_after(2):
            await run(TINY, targets, plan, record, logs=tmp_path, progress=Silence())
    assert 0 < len(record.samples) < 200
    assert "(of 100) rounds" in markdown([record])


def test_everybody_comes_first_once() -> None:
    targets = [Target(name, "") for name in "abc"]
    assert [[t.name for t in rotated(targets, number)] for number in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]


async def test_moments_are_shared_and_prompts_are_not(autojump_clock: MockClock) -> None:
    async with open_server() as server:
        one, same, other, later = [
            await prepare_turn(TINY, running(server, name), Plan(rounds=2, seed=1), number, Silence())
            for name, number in (("a", 0), ("a", 0), ("b", 0), ("a", 1))
        ]
    moments = [turn.rng.random() for turn in (one, same, other, later)]
    prompts = [turn.prompts.make(8) for turn in (one, same, other, later)]
    assert moments[0] == moments[1] == moments[2] != moments[3]
    assert prompts[0] == prompts[1]
    assert len(set(prompts)) == 3


async def test_text_is_calibrated_by_the_server_s_own_count(autojump_clock: MockClock) -> None:
    async with open_server() as server:
        scale = await calibrate(client_of(server, Dialect(endpoint="chat", token_ids=None)), random.Random(0))
    assert (scale.overhead, scale.tokens_per_word) == (0, 1)


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


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    result = CliRunner().invoke(bench, ["--help"])
    assert result.exit_code == 1
    assert "cede bench needs matplotlib: pip install 'cede[bench]'" in result.output


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


def test_a_target_is_started_and_stopped(tmp_path: Path) -> None:
    port = free_port()
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
