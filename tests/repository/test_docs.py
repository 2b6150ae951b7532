"""The documents are true of the repository: what they name is there, and pictures are current."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from docs.figures.__main__ import FOLDER, PICTURES
from docs.figures.request import STOPS

ROOT = Path(__file__).parents[2]
# What was measured once is not rewritten when a file moves.
HISTORY = ("bench/LOG.md", "bench/results/")
TOP = ("runtime", "actors", "web", "bench", "tests", "docs", "deploy", ".github", ".ci")
README_LINES = 120

PATH = re.compile(rf"(?<![\w/.-])((?:{'|'.join(map(re.escape, TOP))})/[\w./-]*\w/?)(?:::([\w.]+))?")
MODULE = re.compile(r"(?<![\w./-])((?:runtime|actors|web|bench|tests)(?:\.[A-Za-z_]\w*)+)(?![\w/])")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")


def documents() -> list[Path]:
    """Every page in Markdown, but what is history; and the scripts that run what the pages say."""
    scripts = [
        ROOT / "deploy" / "docker" / "Dockerfile",
        ROOT / "noxfile.py",
        ROOT / ".ci" / "run",
        *(ROOT / ".github").rglob("*.yml"),
    ]
    top = [*scripts, *ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.md")]
    found = top + [page for folder in ("docs", "tests", "bench", "runtime") for page in (ROOT / folder).rglob("*.md")]
    return sorted(page for page in found if not str(page.relative_to(ROOT)).startswith(HISTORY))


@cache
def tree(path: Path) -> ast.Module:
    """A module's source, parsed."""
    return ast.parse(path.read_text())


def defines(path: Path, name: str) -> bool:
    """Return whether a module defines `name`: a class, function or constant, or `Class.method`, `Class.field`."""
    body: list[ast.stmt] = tree(path).body
    for part in name.split("."):
        for node in body:
            if part in _names(node):
                body = node.body if isinstance(node, ast.ClassDef) else []
                break
        else:
            return False
    return True


def _names(node: ast.stmt) -> set[str]:
    """Return what one statement binds in its own scope, imported names included."""
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return {node.name}
        case ast.Assign():
            return {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.ImportFrom() | ast.Import():
            return {alias.asname or alias.name for alias in node.names}
        case _:
            return set()


def is_there(dotted: str) -> bool:
    """Return whether `actors.testing.chaos.open_chaos` is a module, or something in one."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        module = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if module.is_file():
            return count == len(parts) or defines(module, ".".join(parts[count:]))
    return False


def assert_in_no_page(missing_from: Callable[[Path], list[str]]) -> None:
    missing = {str(page.relative_to(ROOT)): missing_from(page) for page in documents()}
    assert {page: names for page, names in missing.items() if names} == {}


def test_paths_and_functions_that_a_page_names_exist() -> None:
    def missing(page: Path) -> list[str]:
        named = [(ROOT / path, name) for path, name in PATH.findall(page.read_text())]
        return [f"{file}::{name}" for file, name in named if not file.exists() or (name and not defines(file, name))]

    assert_in_no_page(missing)


def test_modules_that_a_page_names_exist() -> None:
    assert_in_no_page(lambda page: [name for name in MODULE.findall(page.read_text()) if not is_there(name)])


def test_links_between_pages_lead_somewhere() -> None:
    def missing(page: Path) -> list[str]:
        targets = [target for target, _ in LINK.findall(page.read_text()) if "://" not in target]
        return [target for target in targets if not (page.parent / target).exists()]

    assert_in_no_page(missing)


def test_a_name_that_is_not_there_is_noticed() -> None:
    engine = ROOT / "actors" / "engine.py"
    assert defines(engine, "open_engine")
    assert defines(engine, "Engine.open_request")
    assert not defines(engine, "Engine.open_rquest")
    assert not defines(engine, "open_engine.open_request")
    assert is_there("actors.engine.open_engine")
    assert not is_there("actors.engin")
    assert PATH.findall("see `web/gone.py::Gone.at`, `web/http/`.") == [("web/gone.py", "Gone.at"), ("web/http/", "")]


def test_a_requests_life_names_the_functions_of_its_picture() -> None:
    page = (ROOT / "docs" / "understand" / "request.md").read_text()
    named = {f"{path}::{name}" for path, name in PATH.findall(page) if name}
    assert {stop.name for stop in STOPS} <= named


@pytest.mark.parametrize("example", ["test_example.py", "test_simulation_example.py"])
def test_the_page_about_fault_testing_shows_tests_that_run(example: str) -> None:
    source = (ROOT / "tests" / "scenarios" / "cancels" / example).read_text()
    assert f"```python\n{source}```" in (ROOT / "docs" / "understand" / "fault-testing.md").read_text()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_its_script_draws(name: str) -> None:
    assert (FOLDER / name).read_text() == PICTURES[name](), "python -m docs.figures draws it anew"


def test_the_readme_is_short_and_its_test_command_is_what_ci_runs() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= README_LINES
    (command,) = re.findall(r"^The tests are run by\n\n {4}(.+)$", readme, re.MULTILINE)
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()
