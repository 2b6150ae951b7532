"""Agents: how each is called and pointed at a server, and what it names its tools."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.models.agent.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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


CODEX = """
model = "local"
model_provider = "cede"
check_for_update_on_startup = false

[model_providers.cede]
name = "cede"
base_url = "@URL@/v1"
wire_api = "responses"

[analytics]
enabled = false
"""
OPENCODE: dict[str, Any] = {
    "model": "cede/local",
    "autoupdate": False,
    "share": "disabled",
    "provider": {
        "cede": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "@URL@/v1", "apiKey": "none"},
            "models": {"local": {"limit": {"context": 65536, "output": 8192}}},
        }
    },
}
PI: dict[str, Any] = {
    "providers": {
        "cede": {
            "baseUrl": "@URL@/v1",
            "api": "openai-completions",
            "apiKey": "none",
            "models": [{"id": "local", "contextWindow": 65536, "maxTokens": 8192}],
        }
    }
}
# Memories are gathered by a process that outlives the agent, whose requests would be taken for those of the next one.
QWEN: dict[str, Any] = {
    "privacy": {"usageStatisticsEnabled": False},
    "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False, "enableAutoSkill": False},
}
CONTINUE = """
name: local
version: 1.0.0
schema: v1
models:
  - name: local
    provider: openai
    model: local
    apiBase: @URL@/v1
    apiKey: none
    capabilities: [tool_use]
"""

AGENTS = (
    Codex(
        "codex",
        ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        files={".codex/config.toml": CODEX},
        run=("exec_command", "cmd"),
    ),
    Agent(
        "claude",
        ("--allowedTools=Write,Bash", "--permission-mode=acceptEdits", "-p"),
        {
            "ANTHROPIC_BASE_URL": "@URL@",
            "ANTHROPIC_AUTH_TOKEN": "none",
            "ANTHROPIC_MODEL": "local",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": "local",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "MAX_THINKING_TOKENS": "0",
        },
        write=("Write", "file_path", "content"),
        run=("Bash", "command"),
        alters=("\\u00e9", "\N{LATIN SMALL LETTER E WITH ACUTE}"),  # it takes such for a model's mistake
    ),
    Agent(
        "opencode",
        ("run",),
        {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"},
        {".config/opencode/opencode.json": json.dumps(OPENCODE)},
        write=("write", "filePath", "content"),
    ),
    Agent(
        "qwen",
        ("--auth-type=openai", "--yolo", "-p"),
        {"OPENAI_BASE_URL": "@URL@/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "local"},
        {".qwen/settings.json": json.dumps(QWEN)},
        write=("write_file", "file_path", "content"),
        run=("run_shell_command", "command"),
    ),
    Aider(
        "aider",
        (
            *("--model=openai/local", "--edit-format=whole", "--no-git", "--yes-always"),
            *("--no-check-update", "--no-show-model-warnings", "--analytics-disable"),
            *("--auto-test", f"--test-cmd={COMMAND}; false", "--message"),
        ),
        {"OPENAI_API_BASE": "@URL@/v1", "OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    ),
    Agent(
        "pi",
        ("--provider", "cede", "--model", "local", "-p"),
        {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
        {".pi/agent/models.json": json.dumps(PI)},
    ),
    Agent(
        "cn",
        ("--config=@HOME@/config.yaml", "--auto", "-p"),
        {"CONTINUE_TELEMETRY_ENABLED": "0"},
        {"config.yaml": CONTINUE},
        write=("Write", "filepath", "content"),
        run=("Bash", "command"),
    ),
)
