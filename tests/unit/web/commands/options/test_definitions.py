"""Every option: its flag, its variable, its key in a file and its default, for whatever options there are."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from actors.config import EngineConfig
from runtime.common.options import Option
from runtime.loading.options import LoadOptions
from tests.rows import every_row
from tests.unit.web.commands.options.choosing import chosen, sample
from web.commands.cluster import cluster
from web.commands.config import config
from web.commands.options.definitions import DEFINITIONS, SECTIONS, Definition
from web.commands.options.flags import OptionFlag
from web.commands.options.reference import with_tables
from web.commands.serve import serve

ROOT = Path(__file__).parents[5]
REQUIRED: dict[type, dict[str, Any]] = {
    EngineConfig: {"slots": 4},
    LoadOptions: {"path": Path("model")},
}  # fields that are no options

every_option = every_row("definition", DEFINITIONS.values())


@every_option
def test_the_flag_and_its_other_names(definition: Definition, tmp_path: Path) -> None:
    wanted = sample(definition, tmp_path)
    for flag in definition.flags:
        choice = chosen([part for text in wanted.texts for part in (flag, text)])[definition.key]
        assert (choice.value, choice.place) == (wanted.value, "command line")


@every_option
def test_the_variable(definition: Definition, tmp_path: Path) -> None:
    wanted = sample(definition, tmp_path)
    choice = chosen(variables={definition.variable: wanted.variable})[definition.key]
    assert (choice.value, choice.place) == (wanted.value, definition.variable)


@every_option
def test_the_key_in_a_file(definition: Definition, tmp_path: Path) -> None:
    wanted, file = sample(definition, tmp_path), tmp_path / "cede.toml"
    file.write_text(f"{definition.key} = {wanted.toml}")
    choice = chosen(config=file)[definition.key]
    assert (choice.value, choice.place) == (wanted.value, str(file))


@every_option
def test_the_default_is_that_of_the_config(definition: Definition) -> None:
    choice = chosen()[definition.key]
    made = definition.group(**REQUIRED.get(definition.group, {}))
    assert choice.value == getattr(made, definition.field)
    assert (choice.is_given, choice.place) == (False, "default")


@every_option
def test_a_flag_goes_before_a_variable_and_that_before_the_file(definition: Definition, tmp_path: Path) -> None:
    wanted, file = sample(definition, tmp_path), tmp_path / "cede.toml"
    file.write_text(f"{definition.key} = {wanted.toml}")
    flag = [part for text in wanted.texts for part in (definition.flags[0], text)]
    variable = {definition.variable: wanted.variable}
    assert chosen(flag, variable, file)[definition.key].place == "command line"
    assert chosen([], variable, file)[definition.key].place == definition.variable
    assert chosen([], {definition.variable: ""}, file)[definition.key].place == str(file)


@every_row("definition", [each for each in DEFINITIONS.values() if each.none_is_written])
def test_the_words_for_none_undo_what_the_file_says(definition: Definition, tmp_path: Path) -> None:
    file = tmp_path / "cede.toml"
    file.write_text(f"{definition.key} = {sample(definition, tmp_path).toml}")
    for word in definition.option.none:
        assert chosen([definition.flags[0], word], config=file)[definition.key].value is None
    file.write_text(f'{definition.key} = "{definition.option.none[0]}"')
    assert chosen(config=file)[definition.key].value is None


@every_row("definition", [each for each in DEFINITIONS.values() if each.option.allowed])
def test_a_value_out_of_the_bounds_is_refused_everywhere(definition: Definition, tmp_path: Path) -> None:
    allowed = definition.option.allowed
    assert allowed is not None
    wrong, file = f"{allowed.least - 2:g}", tmp_path / "cede.toml"
    file.write_text(f"{definition.key} = {wrong}")
    cases = {
        f"--{definition.key}": partial(chosen, [f"--{definition.key}={wrong}"]),
        definition.variable: partial(chosen, variables={definition.variable: wrong}),
        f"'{definition.key}' in {file}": partial(chosen, config=file),
    }
    for place, choose in cases.items():
        with pytest.raises(click.BadParameter) as refused:
            choose()
        assert place in refused.value.format_message()
        assert str(allowed) in refused.value.format_message()


@every_option
def test_what_is_said_of_it_is_whole(definition: Definition) -> None:
    option = definition.option
    assert option.help[0].isupper() or option.help.startswith("`")
    assert option.help.endswith(".")
    assert dataclasses.MISSING is not definition.default
    assert (definition.kind in (int, float)) == (option.allowed is not None or option.unit == "bytes")
    assert option.allowed is None or option.allowed.whole == (definition.kind is int)
    assert definition.default is not None or option.none, "there is no word for its default"


def test_no_name_is_given_twice() -> None:
    flags = [flag for definition in DEFINITIONS.values() for flag in definition.flags]
    assert len(flags) == len(set(flags))


def test_all_options_of_the_configs_are_there() -> None:
    marked = sum(
        isinstance(option, Option)
        for groups in SECTIONS.values()
        for group in groups
        for hint in _hints(group)
        for option in getattr(hint, "__metadata__", ())
    )
    assert marked == len(DEFINITIONS)


def _hints(group: type) -> list[object]:
    from typing import get_type_hints

    return [*get_type_hints(group, include_extras=True).values()]


@pytest.mark.parametrize("command", [cluster, config])
def test_help_lists_all_options_in_their_sections(command: click.Command) -> None:
    shown = CliRunner().invoke(command, ["--help"], terminal_width=200)
    assert shown.exit_code == 0
    for section in SECTIONS:
        assert f"\n{section}:\n" in shown.output
    for definition in DEFINITIONS.values():
        assert f"--{definition.key}" in shown.output
        if not definition.many:
            assert f"[default: {definition.default_text}]" in shown.output
    assert [each.definition.key for each in command.params if isinstance(each, OptionFlag)] == list(DEFINITIONS)


def test_a_server_alone_has_no_options_of_a_cluster() -> None:
    keys = [each.definition.key for each in serve.params if isinstance(each, OptionFlag)]
    assert keys == [key for key in DEFINITIONS if DEFINITIONS[key].section != "Cluster"]


def test_the_page_of_all_options_is_what_the_definitions_say() -> None:
    """Else: python -m web.commands.options.reference docs/options.md."""
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert with_tables(page) == page
    for definition in DEFINITIONS.values():
        assert f"`{definition.variable}`" in page
