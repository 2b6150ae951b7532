"""The command line as a process: what it refuses, and how; what it says; which models it serves."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch

from tests.live.fork_server import ForkedServer
from tests.live.server import ANNOUNCEMENT, COMPLETIONS, PATIENCE, ROOT, Server, command, environment
from tests.models.checkpoints import FAMILIES
from web.commands.serve import serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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


@pytest.mark.parametrize(
    ("flag", "value"),
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
    line = refusal(start("serve", flag, value))
    assert flag in line
    assert value in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-np", "x"], "'x' is not a whole number from 1 up"),
        (["-c", "1000000"], "--context 1000000 exceeds the model's own"),
        (["-ngl", "99"], "there is no -ngl: all layers are on the device that --device chooses"),
        (["--max-num-batched-tokens", "512"], "--chunk-tokens"),
        (["--quantization", "awq"], "--quantize int8 or int4"),
        (["--quantis", "int8"], "No such option '--quantis'. Did you mean '--quantize'?"),
        (["one", "--model", "two"], "two models: one and --model two"),
        (["model.gguf", "--kv-disk", "1GiB"], "--kv-disk has no use without --kv-dir"),
        (["--api-key-file", "README.md", "--certfile", "README.md"], "README.md: no certificate for TLS"),
        (["--chaos", "README.md"], "README.md: "),
        (["--chaos", "README.md", "--host", "0.0.0.0"], "listens on loopback only"),
        (["org/na--me"], "org/na--me: not loaded from the hub: the hub has no such names"),
        (["org/name"], "org/name: not loaded from the hub: it is not in the local cache, and HF_HUB_OFFLINE forbids"),
    ],
)
def test_what_is_wrong_with_the_flags_is_said_before_torch_is_imported(arguments: list[str], says: str) -> None:
    assert says in refused_without_torch("serve", "--port", "0", *arguments)


@pytest.mark.parametrize("name", ["serve", "worker", "cluster"])
def test_a_port_in_use_is_said_before_a_model_is_looked_for(name: str) -> None:
    if name != "serve":
        pytest.importorskip("dynamo")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        says = refused_without_torch(name, "--port", str(port), "--model", "org/name")
    why = "the port is in use; --port names another one, or 0 one that is free"
    assert says == f"Error: cannot listen on 127.0.0.1 port {port}: {why}"


def refused_without_torch(*arguments: str) -> str:
    """The last line of a command that fails where there is no torch."""
    script = f"import sys; from web.commands.main import main; sys.modules['torch'] = None; main({[*arguments]!r})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=PATIENCE
    )
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
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


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Yield what needs a look at the machine or the model before it can be refused; all are started at a time."""
    foreign = tmp_path_factory.mktemp("foreign")
    (foreign / "config.json").write_text(json.dumps({"architectures": ["MambaForCausalLM"], "model_type": "mamba"}))
    other = tmp_path_factory.mktemp("other")
    FAMILIES["llama"](other)
    absent = "mps" if torch.cuda.is_available() else "cuda"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        processes = {
            "folder": start("serve", "--port", "0", "--model", str(foreign / "nothing" / "here")),
            "foreign": start("serve", "--port", "0", "--model", str(foreign)),
            "context": start("serve", "--port", "0", "--context", "1000000"),
            "draft": start("serve", "--port", "0", "--speculate", "mtp", "--draft-model", str(foreign)),
            "disk": start("serve", "--port", "0", "--kv-disk", "1GiB"),
            "key": start("serve", "--port", "0", "--keyfile", str(foreign / "config.json")),
            "drafts": start("serve", "--port", "0", "--speculate", "off", "--draft-tokens", "3"),
            "vocabulary": start("serve", "--port", "0", "--draft-model", str(other), "--speculate", "draft"),
            "device": start("serve", "--port", "0", "--device", absent),
            "port": start("serve", "--port", str(port)),
        }
        yield processes
        for process in processes.values():
            with process:
                process.kill()


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("folder", "there is no folder "),
        ("foreign", "MambaForCausalLM"),
        ("context", "--context 1000000 exceeds"),
        ("draft", "--draft-model has no use with --speculate mtp"),
        ("disk", "--kv-disk has no use without --kv-dir"),
        ("key", "--keyfile has no use without --certfile"),
        ("drafts", "--draft-tokens has no use with --speculate off"),
        ("vocabulary", "the draft model has another vocabulary than the target"),
        ("device", "is not available"),
        ("port", "the port is in use"),
    ],
)
def test_what_cannot_be_served_is_refused(refused: dict[str, subprocess.Popen[str]], case: str, says: str) -> None:
    assert says in refusal(refused[case])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--help"], "serve"),
        (["serve", "--help"], "--stall-timeout"),
        (["doctor", "--help"], "--self-test"),
        (["--version"], "cede"),
    ],
)
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


@pytest.mark.parametrize(
    ("flags", "proposer", "drafts"),
    [
        ([], "mtp", True),
        (["--speculate", "off"], "off", False),
        (["--speculate", "ngram"], "ngram", None),
        (["--speculate", "draft", "--draft-tokens", "3"], "draft", True),
    ],
)
def test_the_embedded_model_speculates(tmp_path: Path, flags: list[str], proposer: str, drafts: bool | None) -> None:
    """Out of the box with its own module; whether lookup finds anything is the text's to say."""
    body = {"prompt": "def read(path):", "max_tokens": 24, "ignore_eos": True, "temperature": 0}
    with ForkedServer(tmp_path, "--dtype", "float32", *flags) as server:
        _, statistics = server.ask("GET", "/v1/statistics")
        assert statistics["speculation"]["proposer"] == proposer
        _, plain = server.ask("POST", COMPLETIONS, body | {"speculate": False})
        assert "draft_n" not in plain["timings"]
        _, answer = server.ask("POST", COMPLETIONS, body)
        assert answer["choices"] == plain["choices"]
        assert drafts in (None, "draft_n" in answer["timings"])


def test_folders_of_two_families_are_served(tmp_path: Path) -> None:
    families = ["qwen2", "smollm3"]
    servers = []
    try:
        for family in families:
            folder = tmp_path / family
            FAMILIES[family](folder)
            servers.append(Server("--model", str(folder), "--dtype", "float32"))
        for family, server in zip(families, servers, strict=True):
            line = server.wait_ready()
            assert re.fullmatch(re.escape(f"{ANNOUNCEMENT}{family} at ") + r"http://127\.0\.0\.1:[1-9]\d*", line)
            body = {"prompt": "hello", "max_tokens": 9, "ignore_eos": True, "temperature": 0}
            status, answer = server.ask("POST", COMPLETIONS, body)
            assert status == 200
            assert answer["model"] == family
            assert answer["usage"]["completion_tokens"] == 9
    finally:
        for server in servers:
            server.end()
