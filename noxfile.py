"""The project's commands by name: `nox --list` shows them, `nox -s lint` runs one.

Every session runs in the environment that nox itself runs in (`pip install -e '.[dev]'`): torch is too large to be
installed once for each.  `.ci/run` calls the same sessions, and the workflows do.
"""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.stop_on_first_error = True


@nox.session
def lint(session: nox.Session) -> None:
    """Style, spelling, and the order between the packages (all in pyproject.toml)."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell")
    session.run("lint-imports", "--no-cache")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types, strictly."""
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the quick tests, or those named: `nox -s tests -- tests/unit/actors -k queue`."""
    session.run("pytest", *(session.posargs or ["-n", "auto", "--dist", "worksteal"]))


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site into site/; a link that leads nowhere is an error."""
    session.run("mkdocs", "build", "--strict", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the wheel, check what is in it, and print its size."""
    session.run("pytest", "-q", "-s", "tests/repository/test_wheel.py")


@nox.session
def simulate(session: nox.Session) -> None:
    """Play random scenarios in virtual time: `nox -s simulate -- --seeds 10000 --first-seed 80000`."""
    session.run("python", "-m", "tests.sim", *(session.posargs or ["--seeds", "300"]))


@nox.session
def mutants(session: nox.Session) -> None:
    """Break the source in known ways, one at a time, and see who notices (an hour for all of them)."""
    session.run("python", "-m", "tests.mutants", *session.posargs)
