"""Agents write a file and run a command as a model says, and are interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.live.agents.agents import AGENTS, COPY, FILE, PAGE, Agent
from tests.live.agents.installed import SOURCES, install_from_npm, install_from_pypi
from tests.live.agents.scripts import closing, file_text, prompt, write_model
from tests.live.fork_server import ForkedServer
from tests.live.pages import sections
from tests.live.server import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

each = pytest.mark.parametrize("agent", AGENTS, ids=[agent.name for agent in AGENTS])


@pytest.fixture(scope="module")
def npm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_from_npm(tmp_path_factory.mktemp("npm"))


@pytest.fixture(scope="module")
def pypi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_from_pypi(tmp_path_factory.mktemp("pypi"))


@pytest.fixture
def programs(agent: Agent, request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue("npm" if agent.uses_tools else "pypi")
    return folder


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, work: Path) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("model")
    return folder, write_model(folder, AGENTS, work)


@pytest.fixture(scope="module")
def running(model: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    flags = ["--model", str(model[0]), "--slots", "2", "--log-format", "json"]
    with ForkedServer(tmp_path_factory.mktemp("server"), *flags) as server:
        yield server


@pytest.fixture
def server(running: ForkedServer) -> Iterator[ForkedServer]:
    """The server, which refuses nothing, and complains of nothing, meanwhile."""
    url, before = running.url, len(running.log())
    assert url
    yield running
    records = [json.loads(line) for line in running.log()[before:].splitlines()]
    assert [said for said in records if said["level"] != "info" or said.get("status", 200) not in (200, 499)] == []


def test_the_page_has_the_versions_that_are_installed() -> None:
    npm = json.loads((SOURCES / "package.json").read_text())["dependencies"].values()
    aider = (SOURCES / "requirements.txt").read_text().partition("aider-chat==")[2].split()[0]
    assert sorted(heading.rpartition(" ")[2] for heading in sections(PAGE)) == sorted([*npm, aider])


def start(agent: Agent, programs: Path, home: Path, work: Path, url: str, prompt: str) -> subprocess.Popen[str]:
    """Start an agent in a session of its own, as a terminal has one, with nothing of this one's but the path."""

    def placed(text: str) -> str:
        return text.replace("@URL@", url).replace("@HOME@", str(home))

    for name, text in agent.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(placed(text))
    work.mkdir(exist_ok=True)
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home)}
    return subprocess.Popen(
        [programs / agent.name, *map(placed, agent.arguments), prompt],
        cwd=work,
        env=variables | {name: placed(text) for name, text in agent.variables.items()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@each
def test_a_file_is_written_and_a_command_run(
    agent: Agent, programs: Path, model: tuple[Path, dict[str, str]], work: Path, server: ForkedServer, tmp_path: Path
) -> None:
    folder = work / agent.name
    with start(agent, programs, tmp_path, folder, server.url, model[1][agent.name]) as client:
        said, _ = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0, said
    assert closing(agent) in said
    for name in (FILE, COPY):
        assert (folder / name).read_bytes() == agent.written(file_text()), said
    server.wait_idle()


def tokens(server: ForkedServer, request_id: str) -> int:
    """Return how many tokens a live request has; none for one that has ended."""
    count: int = server.requests().get(request_id, {"completion_tokens": 0})["completion_tokens"]
    return count


def has_changed(server: ForkedServer, request_id: str, most: int) -> bool:
    """Return whether a request has ended, or has more tokens than these."""
    return not 0 < tokens(server, request_id) <= most


@each
def test_an_interrupted_agent_leaves_nothing_running(
    agent: Agent, programs: Path, work: Path, server: ForkedServer, tmp_path: Path
) -> None:
    def streaming() -> str:
        assert client.poll() is None, client.communicate()
        return next((id for id, live in server.requests().items() if live["completion_tokens"] > 50), "")

    with start(agent, programs, tmp_path, work / agent.name, server.url, prompt(agent)) as client:
        request_id = wait_for(streaming, "the agent's stream")
        while shown := tokens(server, request_id):  # opencode goes on after the first Ctrl-C at times
            os.killpg(client.pid, signal.SIGINT)
            seen = partial(has_changed, server, request_id, shown + 200)
            wait_for(seen, "the stream's end, or that it goes on")
        client.communicate(timeout=PATIENCE)
    (receipt,) = server.wait_ended(request_id)
    assert receipt["reason"] == "client_disconnect"
    server.wait_idle()
