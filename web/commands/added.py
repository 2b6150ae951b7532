"""Commands that other packages add to `cede`, each by an entry point that names a click command.

    [project.entry-points."cede.commands"]
    bench = "bench.client.command:bench"

Its module is imported for `cede --help` already, so it should import what is heavy when the command runs.  `cede bench`
comes in this way, too: the harness stands above the server, and nothing of the server may lean on it.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, entry_points, version

import click

GROUP = "cede.commands"


def added_names() -> list[str]:
    """The names of the commands that are added; none where cede runs from a folder that is not installed."""
    return sorted(entry_points(group=GROUP).names)


def load_added(name: str) -> click.Command | None:
    """The command that is added by this name, or one that says why it cannot be used; None where there is none."""
    for entry_point in entry_points(group=GROUP, name=name):
        try:
            command = entry_point.load()
        except (ImportError, AttributeError) as error:
            return _Unusable(name, f"cede {name} cannot be used: {entry_point.value}: {error}")
        if isinstance(command, click.Command):
            return command
        return _Unusable(name, f"cede {name} cannot be used: {entry_point.value} is not a click command")
    return None


def installed_version() -> str | None:
    """The version of cede as it is installed; None where it runs from a folder that is not."""
    try:
        return version("cede")
    except PackageNotFoundError:
        return None


class _Unusable(click.Command):
    """A command that only says why it cannot be used."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, help=why, add_help_option=False)
        self._why = why

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        raise click.ClickException(self._why)
