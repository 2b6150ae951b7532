"""The model that tells each agent to write a file and to run a command."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from tests.live.agents.agents import HERMES
from tests.live.server import ROOT
from tests.models.chat.markers import MARKERS
from tests.models.scripted.writing import write_scripted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.live.agents.agents import Agent

SAID_ASIDE = "A title."
"""To requests that are no part of the task, such as one for a title."""

ENDLESS = " ".join(f"{number} sheep." for number in range(500))

# A cue names the first and the last text of an agent; a result of a tool, or of aider's command, asks for the next one.
CHOICE = """
{%- if add_generation_prompt %}
    {%- set asked = messages | map(attribute="content") | join(" ") %}
    {%- set tested = asked.count("this output:") %}
    {%- set results = tested + (messages | selectattr("role", "equalto", "tool") | list | length) %}
    {%- set cue = ("cue:" if tools else "textcue:") %}
    {%- set numbers = (asked.split(" " + cue)[1] if " " + cue in asked else "0:0").split(":") %}
    {{- "<|say " ~ [numbers[0] | int + results, numbers[1] | int] | min ~ "|>" }}
{%- endif %}
"""


def file_text() -> str:
    """Return 200 lines with every marker and quote."""
    marks = [mark for mark in MARKERS if mark == "\t" or (mark.isprintable() and mark.strip())]
    few = (" ".join(marks[(number * step) % len(marks)] for step in (1, 7, 13)) for number in range(200))
    return "".join(f"{number} {line} \"'`\n" for number, line in enumerate(few))


def closing(agent: Agent) -> str:
    """Return what its model says at the end."""
    return f"Both are done, {agent.name}."


def write_model(folder: Path, agents: Sequence[Agent], work: Path) -> dict[str, str]:
    """Write the model of all agents, which work in folders within `work`; return the prompt for each."""
    parts = [[*agent.answers(work / agent.name, file_text()), closing(agent)] for agent in agents]
    texts = [SAID_ASIDE, ENDLESS, *chain(*parts)]
    prose = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", ROOT / "DESIGN.md")]
    write_scripted(folder, texts, HERMES.template, choice=CHOICE, endless=[1], context=131072, prose=prose, longest=40)
    first = {agent.name: 2 + sum(map(len, parts[:number])) for number, agent in enumerate(agents)}
    return {
        agent.name: prompt(agent, first[agent.name], first[agent.name] + len(part) - 1)
        for agent, part in zip(agents, parts, strict=True)
    }


def prompt(agent: Agent, first: int = 1, last: int = 1) -> str:
    """Return a prompt to which these texts are the answers; by default the one that does not end."""
    cue = "cue" if agent.uses_tools else "textcue"
    return f"Do what you are here for. {cue}:{first}:{last}: Thanks."
