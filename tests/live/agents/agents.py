"""Agents: how each is called and, by the page about them, pointed at a server; and what it names its tools."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.live.pages import ADDRESS, exported, indented, sections, with_fields
from tests.models.agent.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PAGE = "start/agents.md"
FILE, COPY = "notes.txt", "copy.txt"
COMMAND = f"cp {FILE} {COPY}"
HERMES = next(family for family in FAMILIES if family.name == "hermes")


@dataclass(frozen=True)
class Agent:
    """A program whose model calls tools.

    In its arguments, variables and files `@URL@` stands for the server's address and `@HOME@` for the agent's home.

    Attributes:
        name: of the program.
        arguments: before the prompt.
        variables: of its environment, beside `PATH` and `HOME`.
        files: that configure it, by their path in its home.
        write: its tool that writes a file, and the names there of the path and the text.
        run: its tool that runs a command, and the name there of the command.
        alters: what it writes otherwise than its model says, and how.
    """

    name: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    write: tuple[str, str, str] = ("write", "path", "content")
    run: tuple[str, str] = ("bash", "command")
    alters: tuple[str, str] = ("", "")

    @property
    def uses_tools(self) -> bool:
        """Return whether its requests offer tools."""
        return True

    def written(self, text: str) -> bytes:
        """Return the file that it makes of a text."""
        before, after = self.alters
        return (text.replace(before, after) if before else text).encode()

    def answers(self, folder: Path, text: str) -> list[str]:
        """Return what its model says to write a file, and to run a command."""
        (write, path, content), (run, command) = self.write, self.run
        return [
            HERMES.write([(write, {path: str(folder / FILE), content: text})]),
            HERMES.write([(run, {command: COMMAND})]),
        ]


class Codex(Agent):
    """Codex, which writes files by commands."""

    def answers(self, folder: Path, text: str) -> list[str]:
        """Return what its model says."""
        run, command = self.run
        commands = (f"cat > {folder / FILE} <<'END'\n{text}END", COMMAND)
        return [HERMES.write([(run, {command: one})]) for one in commands]


class Aider(Agent):
    """Aider, which reads files and commands from the text of an answer."""

    @property
    def uses_tools(self) -> bool:
        """Return whether its requests offer tools."""
        return False

    def answers(self, folder: Path, text: str) -> list[str]:
        """Return what its model says; the command, which fails when it has run, is given when aider is started."""
        return [f"{FILE}\n```\n{text}```\n"]


# Memories are gathered by a process that outlives the agent, whose requests would be taken for those of the next one.
QWEN: dict[str, Any] = {
    "privacy": {"usageStatisticsEnabled": False},
    "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False, "enableAutoSkill": False},
}


def block(title: str) -> str:
    """What the page says of an agent: a file of its settings, or lines for a shell."""
    (text,) = (text for heading, text in sections(PAGE).items() if heading.rpartition(" ")[0] == title)
    return indented(text).replace(ADDRESS, "@URL@")


def flags(title: str) -> tuple[str, ...]:
    """The flags of the command with which a block for a shell ends."""
    return tuple(block(title).splitlines()[-1].split()[1:])


AGENTS = (
    Codex(
        "codex",
        ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        # Neither belongs into a table, and a table goes on to the end of the file.
        files={
            ".codex/config.toml": f"check_for_update_on_startup = false\nanalytics.enabled = false\n{block('Codex')}"
        },
        run=("exec_command", "cmd"),
    ),
    Agent(
        "claude",
        ("--allowedTools=Write,Bash", "--permission-mode=acceptEdits", "-p"),
        exported(block("Claude Code")),
        write=("Write", "file_path", "content"),
        run=("Bash", "command"),
        alters=("\\u00e9", "\N{LATIN SMALL LETTER E WITH ACUTE}"),  # it takes such for a model's mistake
    ),
    Agent(
        "opencode",
        ("run",),
        {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"},
        {".config/opencode/opencode.json": with_fields(block("opencode"), autoupdate=False, share="disabled")},
        write=("write", "filePath", "content"),
    ),
    Agent(
        "qwen",
        (*flags("Qwen Code"), "--yolo", "-p"),
        exported(block("Qwen Code")),
        {".qwen/settings.json": json.dumps(QWEN)},
        write=("write_file", "file_path", "content"),
        run=("run_shell_command", "command"),
    ),
    Aider(
        "aider",
        (
            *flags("aider"),
            *("--no-git", "--yes-always", "--no-check-update", "--analytics-disable"),
            *("--auto-test", f"--test-cmd={COMMAND}; false", "--message"),
        ),
        exported(block("aider")) | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    ),
    Agent(
        "pi",
        ("--provider", "cede", "--model", "local", "-p"),
        {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
        {".pi/agent/models.json": block("pi")},
    ),
    Agent(
        "cn",
        ("--config=@HOME@/config.yaml", "--auto", "-p"),
        {"CONTINUE_TELEMETRY_ENABLED": "0"},
        {"config.yaml": block("Continue's CLI")},
        write=("Write", "filepath", "content"),
        run=("Bash", "command"),
    ),
)
