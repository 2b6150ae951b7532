"""The command line as a process: what it refuses, and how; what it says; which models it serves."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from tests.live.fork_server import ForkedServer
from tests.live.server import ANNOUNCEMENT, COMPLETIONS, PATIENCE, command, environment, refusals
from tests.models.checkpoints import FAMILIES
from tests.rows import every_row
from web.commands.main import main
from web.commands.serve import serve


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )


def refusal(process: subprocess.Popen[str]) -> str:
    """The one line that says what is wrong, behind what the log and click's reminder of the usage say before some."""
    with process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()  # has no effect on one that has ended
    assert process.returncode not in (0, None)
    assert out == ""
    assert "Traceback" not in err
    *reminder, line = err.splitlines()
    assert line.startswith("Error: ")
    assert all(re.match(r'Usage: |Try |{"time": "[^"]+", "level": "info", |$', other) for other in reminder), err
    return line


@every_row(
    "flag, value",
    [
        ("--port", "99999"),
        ("--slots", "0"),
        ("--chunk-tokens", "x"),
        ("--chunk-tokens", "0"),
        ("--threads", "9" * 20),
        ("--context", "-1"),
        ("--device", "tpu"),
        ("--dtype", "int8"),
        ("--speculate", "always"),
        ("--draft-tokens", "0"),
        ("--draft-tokens", "17"),
        ("--queue", "-1"),
        ("--watch-loop", "0"),
        ("--queue-timeout", "0"),
        ("--request-timeout", "soon"),
        ("--stall-timeout", "0"),
        ("--stall-timeout", "nan"),
        ("--grace", "-1"),
        ("--log-level", "loud"),
        ("--temperature", "2.5"),
        ("--top-p", "0"),
        ("--top-k", "-1"),
        ("--min-p", "nan"),
        ("--repetition-penalty", "0"),
        ("--sampling-defaults", "best"),
        ("--kv-ram", "lots"),
    ],
)
def test_a_value_that_cannot_be_is_refused(flag: str, value: str) -> None:
    ended = CliRunner().invoke(main, ["serve", flag, value])
    assert (ended.exit_code, ended.stdout) == (2, "")
    *_, line = ended.stderr.splitlines()
    assert line.startswith("Error: ")
    assert flag in line
    assert value in line


NEEDS_NO_TORCH = [
    (["-np", "x"], "'x' is not a whole number from 1 up"),
    (["-c", "1000000"], "--context 1000000 exceeds the model's own"),
    (["-ngl", "99"], "there is no -ngl: all layers are on the device that --device chooses"),
    (["--max-num-batched-tokens", "512"], "--chunk-tokens"),
    (["--quantization", "awq"], "--quantize int8 or int4"),
    (["--quantis", "int8"], "No such option '--quantis'. Did you mean '--quantize'?"),
    (["one", "--model", "two"], "two models: one and --model two"),
    (["--model", "/nothing/here"], "there is no folder "),
    (["model.gguf", "--kv-disk", "1GiB"], "--kv-disk has no use without --kv-dir"),
    (["--speculate", "mtp", "--draft-model", "tests"], "--draft-model has no use with --speculate mtp"),
    (["--speculate", "off", "--draft-tokens", "3"], "--draft-tokens has no use with --speculate off"),
    (["--keyfile", "README.md"], "--keyfile has no use without --certfile"),
    (["--api-key-file", "README.md", "--certfile", "README.md"], "README.md: no certificate for TLS"),
    (["--chaos", "README.md"], "README.md: "),
    (["--chaos", "README.md", "--host", "0.0.0.0"], "listens on loopback only"),
    (["org/na--me"], "org/na--me: not loaded from the hub: the hub has no such names"),
    (["org/name"], "org/name: not loaded from the hub: it is not in the local cache, and HF_HUB_OFFLINE forbids"),
]


def test_what_is_wrong_with_the_flags_is_said_before_torch_is_imported() -> None:
    said = refusals(["serve", "--port", "0", *arguments] for arguments, _ in NEEDS_NO_TORCH)
    assert [line for line, (_, says) in zip(said, NEEDS_NO_TORCH, strict=True) if says not in line] == []


def test_a_port_in_use_is_said_before_a_model_is_looked_for() -> None:
    names = ["serve", "worker", "cluster"] if find_spec("dynamo") else ["serve"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusals([name, "--port", str(port), "--model", "org/name"] for name in names)
    why = "the port is in use; --port names another one, or 0 one that is free"
    assert said == [f"Error: cannot listen on 127.0.0.1 port {port}: {why}"] * len(names)


@every_row(
    "arguments, name, value",
    [
        (["org/name"], "named", "org/name"),
        (["-m", "org/name"], "model", "org/name"),
        (["-c", "512"], "context", 512),
        (["--ctx-size", "0"], "context", None),
        (["--max-model-len=512"], "context", 512),
        (["-np", "2"], "slots", 2),
        (["--parallel", "2"], "slots", 2),
        (["--max-num-seqs", "2"], "slots", 2),
        (["-t", "2"], "threads", 2),
        (["-t", "auto"], "threads", None),
        (["-md", "org/small"], "draft_model", "org/small"),
        (["--temp", "0.5"], "temperature", 0.5),
        (["--repeat-penalty", "1.1"], "repetition_penalty", 1.1),
    ],
)
def test_other_servers_names_for_the_same_flags(arguments: list[str], name: str, value: object) -> None:
    assert serve.make_context("serve", arguments).params[name] == value


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    """By a look at the machine or the model; all are started at a time."""
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["MambaForCausalLM"], "model_type": "mamba"}))
    FAMILIES["llama"](tmp_path / "other")
    cases = {
        "99999": ["--port", "99999"],
        "MambaForCausalLM": ["--model", str(tmp_path)],
        "the draft model has another vocabulary than the target": [
            *("--draft-model", str(tmp_path / "other"), "--speculate", "draft"),
        ],
        "is not available": ["--device", "mps" if torch.cuda.is_available() else "cuda"],
    }
    started = {says: start("serve", "--port", "0", *arguments) for says, arguments in cases.items()}
    said = {says: refusal(process) for says, process in started.items()}
    assert {says: line for says, line in said.items() if says not in line} == {}


@pytest.mark.parametrize(("arguments", "says"), [(["serve", "--help"], "--stall-timeout"), (["--version"], "cede")])
def test_help_and_version(arguments: list[str], says: str) -> None:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, env=environment(), timeout=PATIENCE)
    assert done.returncode == 0
    assert done.stderr == ""
    assert says in done.stdout


SERVES_NOTHING = """
import gc
import web.serving.server
from web.commands.main import main

async def run_server(options, sockets, *, progress, announce, hooks):
    announce("http://nowhere")
    print("small:", len(gc.get_objects()) < 5000 < gc.get_freeze_count())

web.serving.server.run_server = run_server
main(["serve", "--port", "0"])
"""


def test_what_was_loaded_is_never_searched_for_garbage() -> None:
    """Or it stops everybody's tokens for as long as a few steps take."""
    done = subprocess.run([sys.executable, "-c", SERVES_NOTHING], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["cede serves cede-embedded at http://nowhere", "small: True"]


def test_the_embedded_model_speculates(tmp_path: Path) -> None:
    """Out of the box with its own module."""
    body = {"prompt": "def read(path):", "max_tokens": 24, "ignore_eos": True, "temperature": 0}
    with ForkedServer(tmp_path) as server:
        assert server.get("/v1/statistics")["speculation"]["proposer"] == "mtp"
        _, plain = server.ask("POST", COMPLETIONS, body | {"speculate": False})
        _, answer = server.ask("POST", COMPLETIONS, body)
    assert answer["choices"] == plain["choices"]
    assert ("draft_n" in plain["timings"], "draft_n" in answer["timings"]) == (False, True)


@pytest.mark.parametrize("family", ["qwen2", "smollm3"])
def test_a_folder_is_served_under_its_name(tmp_path: Path, family: str) -> None:
    FAMILIES[family](tmp_path / family)
    with ForkedServer(tmp_path, "--model", str(tmp_path / family)) as server:
        line = server.wait_ready()
        assert re.fullmatch(re.escape(f"{ANNOUNCEMENT}{family} at ") + r"http://127\.0\.0\.1:[1-9]\d*", line)
        body = {"prompt": "hello", "max_tokens": 9, "ignore_eos": True, "temperature": 0}
        status, answer = server.ask("POST", COMPLETIONS, body)
    assert (status, answer["model"], answer["usage"]["completion_tokens"]) == (200, family, 9)
