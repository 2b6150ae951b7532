"""The head of a folder, its `__init__.py`'s docstring, names the modules that are there, and all of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUOTED = re.compile(r"`([a-z_][a-z0-9_]*)(?:/|\.py)?`")
DOTTED = re.compile(r"`([a-z_][a-z0-9_]*)(?:\.\w+)+`")
# A row of a table: `    name      what it is`; the name alone may fill a line, and a folder's may end with a slash.
ROW = re.compile(r"^ *([a-z_][a-z0-9_]*)(?:/|\.\w+)? {2,}\S")


def listed(head: str) -> set[str]:
    """Return what a head says that there is: the first column of its tables, and the words before an item's colon."""
    rows = {match[1] for line in head.splitlines() if (match := ROW.match(line))}
    bullets = re.findall(r"^- (.*(?:\n  .*)*)", head, re.MULTILINE)
    items = [item for bullet in bullets for item in re.split(r"[;·]\s+", bullet)]
    return rows | {name for item in items if item.startswith("`") for name in QUOTED.findall(item.partition(":")[0])}


def inside(folder: Path) -> set[str]:
    """Return the modules and the packages in a folder; what is run or imported by itself needs no words."""
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("__")}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}


def faults(head: str, folder: Path) -> str:
    """Return what is wrong with a folder's head, or nothing."""
    names, there = listed(head), inside(folder)
    files = {path.name.partition(".")[0] for path in folder.iterdir()}
    gone = names - there - files
    said = names | set(QUOTED.findall(head)) | set(DOTTED.findall(head))
    # One name may stand for an example; two are a list, and a list has all.
    missing = there - said if len(there & said) > 1 or names else set()
    return ", ".join([*(f"no {name}" for name in sorted(gone)), *(f"{name} is not named" for name in sorted(missing))])


def test_heads_of_folders_name_the_modules_that_are_there_and_all_of_them() -> None:
    wrong = []
    for path in sorted(path for top in ("runtime", "actors", "web") for path in (ROOT / top).rglob("__init__.py")):
        if fault := faults(ast.get_docstring(ast.parse(path.read_text())) or "", path.parent):
            wrong.append(f"{path.relative_to(ROOT).parent}: {fault}")
    assert not wrong, "\n".join(wrong)


def test_a_head_that_names_what_is_gone_or_leaves_something_out_is_noticed(tmp_path: Path) -> None:
    for name in ("__init__", "__main__", "door", "roof"):
        (tmp_path / f"{name}.py").touch()
    assert not faults("A house.\n\n- `door`: `open_door`, a function\n- `roof`: tiles", tmp_path)
    assert not faults("A house.\n\n    door    open_door\n    roof    tiles", tmp_path)
    assert not faults("A house, which lists nothing.", tmp_path)
    assert faults("A house.\n\n- `door`: the way in · `cellar`: below", tmp_path) == "no cellar, roof is not named"
    assert faults("A house.\n\n    door    the way in", tmp_path) == "roof is not named"
