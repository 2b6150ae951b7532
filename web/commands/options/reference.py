"""The table of all options in docs/options.md, written from their definitions.

python -m web.commands.options.reference docs/options.md
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from web.commands.options.definitions import DEFINITIONS

if TYPE_CHECKING:
    from web.commands.options.definitions import Definition

BEGIN = "<!-- begin: written by python -m web.commands.options.reference -->"
END = "<!-- end -->"


def with_tables(page: str) -> str:
    """The page with the tables as they should be, between the two marks that it has."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{tables()}\n{END}{tail}"


def tables() -> str:
    """A table for each section."""
    lines: list[str] = []
    for section, definitions in groupby(DEFINITIONS.values(), key=lambda definition: definition.section):
        lines += [f"## {section}", "", "| flag, variable | value | default | |", "|---|---|---|---|"]
        lines += [_row(definition) for definition in definitions]
        lines.append("")
    return "\n".join(lines)


def _row(definition: Definition) -> str:
    names = ", ".join(f"`{name}`" for name in (*definition.flags, definition.variable))
    cells = [names, _value(definition), f"`{definition.default_text}`", _text(definition)]
    return f"| {' | '.join(cells)} |"


def _value(definition: Definition) -> str:
    """Return what may be given."""
    option = definition.option
    if definition.words:
        return ", ".join(f"`{word}`" for word in definition.words)
    if option.allowed is not None:
        kind = f"{option.allowed} ({option.unit})" if option.unit else str(option.allowed)
    else:
        kind = {"bytes": "a size", "file": "a file", "output": "a file to be written", "folder": "a folder"}.get(
            option.unit, "text"
        )
    words = [f"`{option.none[0]}` or "] if definition.none_is_written else []
    return "".join([*words, kind, ", several times" if definition.many else ""])


def _text(definition: Definition) -> str:
    return definition.option.help.replace("|", "\\|").replace("*", "\\*")


def main() -> None:
    """Write the tables into the page that is named."""
    path = Path(sys.argv[1])
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
