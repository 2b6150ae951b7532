"""The glossary names what exists: each module, and each name in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.rows import every_row

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (?P<word>[^|]+) \| [^|]+ \| `(?P<path>[\w/]+\.py)`(?: `(?P<name>\w+)`)? \|$", re.MULTILINE)
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
TERMS = [match.groups() for match in ROW.finditer(GLOSSARY)]


def names_in(path: Path) -> set[str]:
    """Return the names that a module defines at its top level."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)}
    return names


@every_row("word, path, name", TERMS)
def test_each_term_is_where_the_glossary_says(word: str, path: str, name: str | None) -> None:
    assert (ROOT / path).is_file()
    assert name is None or name in names_in(ROOT / path)


def test_every_row_is_read_and_no_word_comes_twice() -> None:
    rows = [line for line in GLOSSARY.splitlines() if line.startswith("| ") and not line.startswith("| word ")]
    assert len(TERMS) == len(rows)
    assert len({word for word, _, _ in TERMS}) == len(TERMS)
