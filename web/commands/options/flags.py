"""Options as click's: their flags, the variables and the file that stand behind them, and how `--help` lists them.

Click looks for a value in this order: the flag, the variable, the file, the default; and it knows where it found it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from runtime.common.log_text import quoted
from web.commands.options.config_file import CONFIG_VARIABLE, read_config, refuse_unknown_variables
from web.commands.options.definitions import DEFINITIONS, Definition
from web.commands.options.parameters import FILE, value_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from click.types import OptionHelpExtra

Decorated = TypeVar("Decorated", bound="Callable[..., Any] | click.Command")

FLAGS_WIDTH = 30  # so that the texts of all sections begin in one column
_FILE = "cede.config_file"  # where click's context keeps its path


class OptionFlag(click.Option):
    """An option that has a definition.

    Args:
        names: of the flag, and of the parameter.
        definition: of the option.
        changes: of what click is told of it.
    """

    def __init__(self, names: Sequence[str], *, definition: Definition, **changes: Any) -> None:  # noqa: ANN401
        option = definition.option
        given: dict[str, Any] = {
            "type": value_type(definition),
            "multiple": definition.many,
            "envvar": definition.variable,
            "help": option.help,
            "metavar": None if definition.words else option.unit.upper() or None,
        }
        if definition.default is not None or definition.none_is_written:
            given["default"] = definition.write(definition.default)
        super().__init__(names, **given | changes)
        self.definition = definition

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """Return what stands in brackets behind the help text: the default, as people write it."""
        extra = super().get_help_extra(ctx)
        if not self.required:
            extra["default"] = self.definition.default_text
        return extra

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Return where the wrong value stands."""
        source = None if ctx is None else ctx.get_parameter_source(self.definition.parameter)
        if ctx is not None and source is ParameterSource.DEFAULT_MAP:
            return f"{self.definition.key!r} in {config_file(ctx)}"
        if source is ParameterSource.ENVIRONMENT:
            return self.definition.variable
        return super().get_error_hint(ctx)

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:  # noqa: ANN401
        """The value in its type; what a file says must already be of the type that it is written in."""
        if ctx.get_parameter_source(self.definition.parameter) is ParameterSource.DEFAULT_MAP:
            self._check_written(value, ctx)
        return super().type_cast_value(ctx, value)

    def _check_written(self, value: object, ctx: click.Context) -> None:
        definition, option = self.definition, self.definition.option
        if definition.many:
            wanted, fits = "a list of texts", isinstance(value, list) and all(isinstance(item, str) for item in value)
        elif option.unit == "bytes":
            wanted = "a size, such as 2GiB, or a number of bytes"
            fits = isinstance(value, str | int) and not isinstance(value, bool)
        elif option.allowed is not None:
            wanted, fits = str(option.allowed), not isinstance(value, str) or value in option.none
        else:
            wanted, fits = "a text", isinstance(value, str)
        if not fits:
            shown = "it" if option.secret else quoted(value)
            raise click.BadParameter(f"{shown} is not {wanted}", ctx, self)


class SectionedCommand(click.Command):
    """A command that lists its options by their sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them; those without a definition come first."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)) is not None:
                section = parameter.definition.section if isinstance(parameter, OptionFlag) else "Options"
                flags, text = record
                sections.setdefault(section, []).append((f"{flags:<{FLAGS_WIDTH}}", text))
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def config_file(ctx: click.Context) -> Path | None:
    """The file of options that was given."""
    path: Path | None = ctx.meta.get(_FILE)
    return path


def option_flags(*keys: str) -> Callable[[Decorated], Decorated]:
    """Give a command some of the options, or all of them where none is named, and with them `--config`."""

    def decorate(function: Decorated) -> Decorated:
        for definition in reversed([DEFINITIONS[key] for key in keys or DEFINITIONS]):
            function = option_flag(definition.key)(function)
        return _config_flag(function)

    return decorate


def option_flag(key: str, **changes: Any) -> Callable[[Decorated], Decorated]:  # noqa: ANN401  # click's
    """Give a command one of the options, with `changes` to what click is told of it."""
    definition = DEFINITIONS[key]
    return click.option(*definition.flags, definition.parameter, cls=OptionFlag, definition=definition, **changes)


def _take_config(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    """Put the file's values behind the flags and the variables."""
    refuse_unknown_variables(os.environ)
    if path is not None:
        ctx.meta[_FILE] = path
        ctx.default_map = {DEFINITIONS[key].parameter: value for key, value in read_config(path).items()}


_config_flag = click.option(
    "--config",
    type=FILE,
    envvar=CONFIG_VARIABLE,
    show_envvar=True,
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_take_config,
    help='File of options in TOML, such as the line kv-ram = "2GiB" for --kv-ram.',
)
