"""Flags of other servers: those that the pages for their users name are taken, or the error says what there is here."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from tests.rows import every_row
from web.commands.foreign import FOREIGN
from web.commands.main import main
from web.commands.options.definitions import DEFINITIONS

START = Path(__file__).parents[4] / "docs" / "start"
OWN = {flag for definition in DEFINITIONS.values() for flag in definition.flags}
THEIRS = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


def named() -> list[str]:
    """The flags of other servers that the pages name."""
    text = "\n".join((START / page).read_text(encoding="utf-8") for page in ("coming-from.md", "vllm.md"))
    return sorted({flag for row in re.findall(r"^\|([^|]*)\|", text, re.MULTILINE) for flag in THEIRS.findall(row)})


@every_row("flag", named())
def test_a_flag_that_a_page_names_is_known(flag: str) -> None:
    assert flag in OWN | FOREIGN.keys()


@every_row("command, flag", [(command, flag) for command in ("serve", "cluster", "worker") for flag in FOREIGN])
def test_the_error_says_what_there_is_instead(command: str, flag: str) -> None:
    done = CliRunner().invoke(main, [command, flag, "1"])
    assert done.exit_code == 2
    assert f"there is no {flag}: {FOREIGN[flag]}" in done.output


def test_no_flag_of_ours_is_refused_as_foreign() -> None:
    assert OWN.isdisjoint(FOREIGN)
