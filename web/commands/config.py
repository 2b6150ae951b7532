"""`cede config`: which options are in force, and where each was found."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from web.commands.assembly import refuse_contradictions
from web.commands.foreign import ServeCommand
from web.commands.options.chosen import Chosen
from web.commands.options.definitions import DEFINITIONS
from web.commands.options.flags import option_flags

if TYPE_CHECKING:
    from web.commands.options.chosen import Choice
    from web.commands.options.definitions import Definition, Written

WIDTH = 40  # of the values, where places stand one below the other


@click.command(cls=ServeCommand, short_help="Show which options are in force, and why.")
@click.argument("named", required=False, metavar="[MODEL]")
@option_flags()
@click.pass_context
def config(ctx: click.Context, /, named: str | None, **_: Any) -> None:  # noqa: ANN401  # the context has them, too
    """Show what `cede serve` would take from the same flags, variables and file, and where each value was found.

    It is written as a file that --config reads.  Keys (--api-key) are not shown.
    """
    chosen = Chosen.of(ctx, named)
    refuse_contradictions(chosen)
    for section, definitions in groupby(DEFINITIONS.values(), key=lambda definition: definition.section):
        click.echo(f"# {section}")
        for definition in definitions:
            click.echo(config_line(definition, chosen[definition.key]))
        click.echo()


def config_line(definition: Definition, choice: Choice) -> str:
    """An option as a line of a file; as a comment where it is the default, so that it stays that, or a secret."""
    if definition.option.secret and choice.is_given:
        said = f"# {definition.key} is given, and not shown"
    elif choice.is_given:
        said = f"{definition.key} = {_literal(definition.write(choice.value))}"
    elif choice.value is None and not definition.none_is_written:
        said = f"# {definition.key} = {definition.default_text}"
    else:
        said = f"# {definition.key} = {_literal(definition.write(choice.value))}"
    return f"{said:<{WIDTH}}  # {choice.place}"


def _literal(written: Written) -> str:
    """A value in TOML, whose texts and lists are JSON's."""
    return repr(written) if isinstance(written, int | float) else json.dumps(written, ensure_ascii=False)
