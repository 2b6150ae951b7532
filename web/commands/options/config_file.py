"""The file of options (`--config`) and the variables: what may stand in them is what the definitions name."""

from __future__ import annotations

import difflib
import tomllib
from typing import TYPE_CHECKING, Any

import click

from runtime.common.log_text import quoted
from web.commands.options.definitions import DEFINITIONS, PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

CONFIG_VARIABLE = PREFIX + "CONFIG"
URL_VARIABLE = PREFIX + "URL"  # of the commands that ask a server


def read_config(path: Path) -> dict[str, Any]:
    """The values in a file, as they are written there, by the options' keys.

    Raises:
        UsageError: it cannot be read, is not TOML, or has a key that no option has.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path}: {error}") from None
    for key in content:
        if key not in DEFINITIONS:
            raise click.UsageError(f"{path}: there is no option {quoted(key)}{_closest(key, DEFINITIONS)}")
    return content


def refuse_unknown_variables(names: Iterable[str]) -> None:
    """Raise UsageError for a name that begins like a variable of cede's and is none: nothing would read it."""
    known = {definition.variable for definition in DEFINITIONS.values()} | {CONFIG_VARIABLE, URL_VARIABLE}
    for name in names:
        if name.startswith(PREFIX) and name not in known:
            raise click.UsageError(f"there is no variable {name}{_closest(name, known)}")


def _closest(name: str, known: Collection[str]) -> str:
    found = difflib.get_close_matches(name, known, n=1)
    return f"; is {found[0]} meant?" if found else ""
