"""`cede completion`: the script that teaches a shell what may follow `cede`; and what completes names of models.

The script asks `cede` itself each time, so it knows every option, its words, and the models that are here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

if TYPE_CHECKING:
    from collections.abc import Iterable

PROGRAM = "cede"
VARIABLE = "_CEDE_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print a script of completions for a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script by which a shell completes commands, options, their words, and names of models.

    \b
        bash: echo 'eval "$(cede completion bash)"' >> ~/.bashrc
        zsh:  echo 'eval "$(cede completion zsh)"' >> ~/.zshrc
        fish: cede completion fish > ~/.config/fish/completions/cede.fish
    """  # noqa: D301  # click's mark is the character itself
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())


def complete_model(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of models that begin so, of those that are here or have a short name; files where there is none."""
    names = [CompletionItem(name) for name in _names(ctx) if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


def complete_held(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of models that were downloaded."""
    return [CompletionItem(name) for name in _held(ctx) if name.startswith(incomplete)]


def complete_known(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Short names of models that can be had."""
    from runtime.store.catalogue import CATALOGUE

    return [
        CompletionItem(name, help=known.summary) for name, known in CATALOGUE.items() if name.startswith(incomplete)
    ]


def _names(ctx: click.Context) -> Iterable[str]:
    from runtime.store.catalogue import CATALOGUE

    return dict.fromkeys(["embedded", *_held(ctx), *CATALOGUE])


def _held(ctx: click.Context) -> list[str]:
    """The models that are here, by the names that `cede models` shows; none where their folder cannot be read."""
    from runtime.errors import CedeError
    from runtime.store.folder import ModelsFolder
    from runtime.store.held import ModelLocation, held_models

    try:
        held = held_models(ModelsFolder(ctx.params.get("models_dir")))
    except (CedeError, OSError):
        return []  # there is nobody to tell in the middle of a line that is being typed
    return [model.name for model in held if model.location is not ModelLocation.EMBEDDED]
