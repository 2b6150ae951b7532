"""Options that `cede cluster` hands on to its children."""

from __future__ import annotations

import os
import sys

import click
import pytest
from click.testing import CliRunner

from tests.unit.web.commands.options.choosing import chosen
from web.cluster import settings
from web.commands.cluster import child_environment, cluster, programs
from web.commands.front_door import front_door
from web.commands.worker import worker
from web.observability.logs.handler import LineHandler
from web.process.options import Cluster, Listening


def test_what_the_command_line_says_is_the_childrens_by_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEDE_SLOTS", "3")
    environment = child_environment(
        chosen(["--queue", "7", "--api-key", "a", "--api-key", "b", "--kv-ram", "2GiB", "--dtype", "float32"]), "x.toml"
    )
    said = {name: value for name, value in environment.items() if name.startswith("CEDE_")}
    assert said == {
        "CEDE_SLOTS": "3",
        "CEDE_QUEUE": "7",
        "CEDE_API_KEY": "a b",
        "CEDE_KV_RAM": "2GiB",
        "CEDE_DTYPE": "float32",
        "CEDE_CONFIG": "x.toml",
    }
    assert environment["PATH"] == os.environ["PATH"]


def test_children_read_the_same_from_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--queue", "7", "--hang-timeout", "0", "--speculate", "off", "--namespace", "n", "smollm2"]
    for name, value in child_environment(chosen(flags), None).items():
        monkeypatch.setenv(name, value)
    again = chosen()
    keys = ("queue", "hang-timeout", "speculate", "namespace", "model")
    assert [again[key].value for key in keys] == [7, None, "off", "n", "smollm2"]


def test_workers_take_any_port_and_the_front_door_the_one_that_was_asked_for() -> None:
    workers, door = programs({"A": "b"}, 2, Listening("127.0.0.9", 4000), grace=7)
    assert [each.name for each in workers] == ["worker 1", "worker 2"]
    assert workers[0].command == [
        *[sys.executable, "-m", "web", "worker", "--host", "127.0.0.1", "--port", "0", "--with-parent", "worker 1"]
    ]
    assert door.command[3:] == [
        *["front-door", "--host", "127.0.0.9", "--port", "4000", "--grace", "0", "--with-parent", "the front door"]
    ]
    assert (workers[0].grace, door.grace) == (7, 0)  # nothing runs any more when the front door is to end


def test_the_port_of_control_is_the_front_doors_alone() -> None:
    assert chosen(["--control-port", "4001"]).config(Cluster).control_port == 4001
    takes = {command.name: {name for each in command.params for name in each.opts} for command in (worker, front_door)}
    assert "--control-port" in takes["front-door"]
    assert "--control-port" not in takes["worker"]


@pytest.mark.parametrize("command", [cluster, worker, front_door])
def test_without_dynamo_they_say_what_to_do(command: click.Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        return None

    for module in ("web.commands.cluster", "web.commands.serve", "web.commands.front_door"):
        monkeypatch.setattr(f"{module}.begin_log", lambda chosen, part=None: LineHandler())
    monkeypatch.setattr("web.commands.cluster.exit_on_signals", lambda: None)
    monkeypatch.setattr("web.process.signals.EarlyStop.install", lambda self: None)
    monkeypatch.setattr(settings, "find_spec", nothing)
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 1
    assert "cede[cluster]" in result.output
