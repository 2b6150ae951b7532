"""Choices: the value of each option, where it was found, and the configs that come of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from web.commands.options.definitions import DEFINITIONS
from web.commands.options.flags import config_file

if TYPE_CHECKING:
    from collections.abc import Mapping

Config = TypeVar("Config")

PRECEDENCE = (
    ParameterSource.DEFAULT,
    ParameterSource.DEFAULT_MAP,
    ParameterSource.ENVIRONMENT,
    ParameterSource.COMMANDLINE,
)
"""The places where a value may be found, from the weakest to the strongest."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The value of an option.

    Attributes:
        value: in the option's type.
        source: where click found it.
        place: the same in words: `default`, the file's name, the variable's, or `command line`.
    """

    value: Any
    source: ParameterSource
    place: str

    @property
    def is_given(self) -> bool:
        """Return whether somebody said it, rather than the default."""
        return self.source is not ParameterSource.DEFAULT

    def yields_to(self, other: Choice) -> bool:
        """Return whether `other` was found in a stronger place."""
        return PRECEDENCE.index(self.source) < PRECEDENCE.index(other.source)


class Chosen:
    """All options of a command.

    Args:
        choices: by the options' keys.
    """

    def __init__(self, choices: Mapping[str, Choice]) -> None:
        self._choices = choices

    @classmethod
    def of(cls, ctx: click.Context, model: str | None = None) -> Chosen:
        """Return what `ctx` has read; `model` is one that was named without a flag.

        Raises:
            UsageError: the command line names two models.
        """
        choices = {key: _choice(ctx, key) for key in DEFINITIONS if DEFINITIONS[key].parameter in ctx.params}
        if model is not None:
            named = choices["model"]
            if named.source is ParameterSource.COMMANDLINE and named.value != model:
                raise click.UsageError(f"two models: {model} and --model {named.value}", ctx)
            choices["model"] = Choice(model, ParameterSource.COMMANDLINE, "command line")
        return cls(choices)

    def serving(self, model: str | None) -> Chosen:
        """The same for a server of `model`, with the default of each option that the command does not have."""
        others = {
            key: Choice(definition.default, ParameterSource.DEFAULT, "default")
            for key, definition in DEFINITIONS.items()
            if key not in self._choices
        }
        named = {"model": Choice(model, ParameterSource.COMMANDLINE, "command line")}
        return Chosen(others | dict(self._choices) | named)

    def __getitem__(self, key: str) -> Choice:
        """Return what was chosen for an option, by its name without the dashes."""
        return self._choices[key]

    def config(self, group: type[Config], **others: Any) -> Config:  # noqa: ANN401  # as the config declares them
        """A config with the values of its options; `others` are its other fields, or override an option."""
        values = {
            definition.field: self[key].value
            for key, definition in DEFINITIONS.items()
            if definition.group is group and definition.field not in others
        }
        return group(**values | others)


def _choice(ctx: click.Context, key: str) -> Choice:
    definition = DEFINITIONS[key]
    source = ctx.get_parameter_source(definition.parameter)
    match source:
        case ParameterSource.COMMANDLINE:
            place = "command line"
        case ParameterSource.ENVIRONMENT:
            place = definition.variable
        case ParameterSource.DEFAULT_MAP:
            place = str(config_file(ctx))
        case _:
            source, place = ParameterSource.DEFAULT, "default"
    return Choice(ctx.params[definition.parameter], source, place)
