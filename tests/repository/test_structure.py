"""The shape of the source: nothing too large to read at once, and tests where one looks for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("runtime", "actors", "web", "bench", "tests")
MAX_MODULES = 20  # in a folder, besides its `__init__.py`
MAX_MODULE_LINES = 600
MAX_CLASS_LINES = 250
MAX_FUNCTION_LINES = 60


def modules(folder: Path) -> list[Path]:
    """The modules of one folder, without its `__init__.py`."""
    return sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")


def folders(package: str) -> list[Path]:
    """The folders of a package that hold modules."""
    return sorted({path.parent for path in (ROOT / package).rglob("*.py")})


def sizes(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield what a module is made of and itself: a name, its lines, and how many it may have."""
    text, name = path.read_text(), str(path.relative_to(ROOT))
    yield name, len(text.splitlines()), MAX_MODULE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            most = MAX_CLASS_LINES if isinstance(node, ast.ClassDef) else MAX_FUNCTION_LINES
            assert node.end_lineno is not None
            yield f"{name}: {node.name}", node.end_lineno - node.lineno + 1, most


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_class_or_function_is_too_long(package: str) -> None:
    found = (size for path in sorted((ROOT / package).rglob("*.py")) for size in sizes(path))
    assert [f"{name} has {lines} lines, more than {most}" for name, lines, most in found if lines > most] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folder_holds_too_many_modules(package: str) -> None:
    counts = {str(folder.relative_to(ROOT)): len(modules(folder)) for folder in folders(package)}
    assert {folder: count for folder, count in counts.items() if count > MAX_MODULES} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_room_says_what_it_is(package: str) -> None:
    heads = {folder: ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) for folder in folders(package)}
    assert [str(folder.relative_to(ROOT)) for folder, head in heads.items() if not head] == []


def test_each_unit_test_has_the_module_that_it_stands_for() -> None:
    """`tests/unit/<path>/test_<module>.py`, or `test_<module>_<aspect>.py`, is for `<path>/<module>.py`."""
    lost = []
    for path in sorted((ROOT / "tests" / "unit").rglob("test_*.py")):
        folder = ROOT / path.parent.relative_to(ROOT / "tests" / "unit")
        about = path.stem.removeprefix("test_") + "_"
        if not any(about.startswith(module.stem + "_") for module in modules(folder)):
            lost.append(str(path.relative_to(ROOT)))
    assert lost == []


def test_each_room_has_unit_tests() -> None:
    lost = []
    for package in ("runtime", "actors", "web", "bench"):
        for folder in folders(package):
            mirror = ROOT / "tests" / "unit" / folder.relative_to(ROOT)
            if {path.stem for path in modules(folder)} - {"__main__"} and not list(mirror.glob("test_*.py")):
                lost.append(str(folder.relative_to(ROOT)))
    assert lost == []
