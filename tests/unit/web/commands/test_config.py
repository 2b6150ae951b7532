"""`cede config` and `--config`: what is in force, where it was found, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.live.server import PATIENCE, ROOT
from tests.unit.web.commands.options.choosing import chosen, sample
from web.commands.config import config
from web.commands.doctor import doctor
from web.commands.options.definitions import DEFINITIONS


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cede.toml"


def show(*arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(config, [*arguments], env=variables)


def lines(result: Result) -> dict[str, tuple[str, str]]:
    """Return what is said of each option, and where it was found."""
    assert result.exit_code == 0, result.output
    told = {}
    for line in result.output.splitlines():
        said, behind, place = line.rpartition("  # ")
        if behind:
            told[said.removeprefix("# ").split()[0]] = said.rstrip(), place
    return told


def test_each_option_and_where_it_was_found(file: Path) -> None:
    file.write_text('slots = 2\nqueue = 5\nkv-ram = "2GiB"\n')
    told = lines(show("--config", str(file), "--queue", "9", CEDE_KV_RAM="1536KiB", CEDE_PORT="0"))
    assert list(told) == list(DEFINITIONS)
    assert told["slots"] == ("slots = 2", str(file))
    assert told["queue"] == ("queue = 9", "command line")
    assert told["kv-ram"] == ('kv-ram = "1536KiB"', "CEDE_KV_RAM")
    assert told["port"] == ("port = 0", "CEDE_PORT")
    assert told["grace"] == ("# grace = 30", "default")
    assert told["model"] == ("# model = embedded", "default")


def test_the_file_can_be_named_by_a_variable(file: Path) -> None:
    file.write_text("slots = 3")
    assert lines(show(CEDE_CONFIG=str(file)))["slots"] == ("slots = 3", str(file))


def test_a_model_without_a_flag_goes_before_the_file(file: Path) -> None:
    file.write_text('model = "org/one"')
    assert lines(show("--config", str(file)))["model"] == ('model = "org/one"', str(file))
    assert lines(show("--config", str(file), "org/two"))["model"] == ('model = "org/two"', "command line")
    assert "two models" in show("org/two", "--model", "org/one").output


def test_what_it_writes_is_a_file_that_says_the_same(tmp_path: Path, file: Path) -> None:
    shown = {key: definition for key, definition in DEFINITIONS.items() if not definition.option.secret}
    told = {key: sample(definition, tmp_path).toml for key, definition in shown.items()}
    told["speculate"] = '"draft"'  # or --draft-model would have no use
    file.write_text("\n".join(f"{key} = {value}" for key, value in told.items()))
    result, written = show("--config", str(file)), tmp_path / "written.toml"
    assert result.exit_code == 0, result.output
    written.write_text(result.output)
    first, again = chosen(config=file), chosen(config=written)
    assert [again[key].value for key in shown] == [first[key].value for key in shown]
    assert all(again[key].is_given for key in shown)


def test_defaults_that_it_writes_stay_defaults(file: Path) -> None:
    file.write_text(show().output)
    again = chosen(config=file)
    assert not any(again[key].is_given for key in DEFINITIONS)


@pytest.mark.parametrize("where", ["flag", "variable", "file", "wrong file"])
def test_keys_are_not_shown(where: str, file: Path) -> None:
    secret = "sk-never-shown"
    file.write_text(f'api-key = ["{secret}"]' if where == "file" else f'api-key = "{secret}"')
    match where:
        case "flag":
            result = show("--api-key", secret)
        case "variable":
            result = show(CEDE_API_KEY=secret)
        case _:
            result = show("--config", str(file))
    assert "api-key" in result.output
    assert secret not in result.output
    assert result.exit_code == (2 if where == "wrong file" else 0)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("quue = 3", "there is no option 'quue'; is queue meant?"),
        ("kv_ram = 0", "there is no option 'kv_ram'; is kv-ram meant?"),
        ("[serve]", "there is no option 'serve'"),
        ("queue = ", "Invalid value (at"),
        ("queue = -1", "'queue' in {file}: -1 is not a whole number from 0 up"),
        ('queue = "3"', "'queue' in {file}: '3' is not a whole number from 0 up"),
        ("queue = 2.5", "'queue' in {file}: 2.5 is not a whole number from 0 up"),
        ("queue = true", "'queue' in {file}: True is not a whole number from 0 up"),
        ("queue = [1]", "'queue' in {file}: [1] is not a whole number from 0 up"),
        ("kv-audit = nan", "'kv-audit' in {file}: nan is not a number from 0 to 1"),
        ("hang-timeout = false", "'hang-timeout' in {file}: False is neither none nor a number from 0 up"),
        ("threads = 2000", "'threads' in {file}: 2000 is neither auto nor a whole number from 1 to 1024"),
        ("threads = []", "'threads' in {file}: [] is neither auto nor a whole number from 1 to 1024"),
        ("host = 5", "'host' in {file}: 5 is not a text"),
        ("device = 1", "'device' in {file}: 1 is not a text"),
        ('device = "tpu"', "'device' in {file}: 'tpu' is not one of 'auto', 'mps', 'cuda', 'cpu'"),
        ("kv-ram = true", "'kv-ram' in {file}: True is not a size, such as 2GiB, or a number of bytes"),
        ("kv-ram = -5", "'kv-ram' in {file}: '-5' is not a size"),
        ("kv-dir = 7", "'kv-dir' in {file}: 7 is not a text"),
        ('allow-host = "name"', "'allow-host' in {file}: 'name' is not a list of texts"),
        ("allow-host = [1]", "'allow-host' in {file}: [1] is not a list of texts"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(line: str, says: str, file: Path) -> None:
    file.write_text(line)
    result = show("--config", str(file))
    assert result.exit_code == 2
    assert str(file) in result.output
    assert says.format(file=file) in result.output
    assert "Traceback" not in result.output


def test_a_file_that_is_not_text(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    result = show("--config", str(file))
    assert (result.exit_code, str(file) in result.output) == (2, True)
    absent = show(CEDE_CONFIG=f"{file}.nothing")
    assert (absent.exit_code, "CEDE_CONFIG" in absent.output, "does not exist" in absent.output) == (2, True, True)


def test_what_is_wrong_with_a_variable_is_said() -> None:
    assert "Invalid value for CEDE_QUEUE: 'many' is not a whole number from 0 up" in show(CEDE_QUEUE="many").output
    refused = show(CEDE_QUEU="3")
    assert refused.exit_code == 2
    assert "there is no variable CEDE_QUEU; is CEDE_QUEUE meant?" in refused.output
    assert "there is no key in CEDE_API_KEY" in show(CEDE_API_KEY=" ").output


def test_a_flag_may_make_an_option_of_the_file_useless(file: Path) -> None:
    """But not one that has the same weight, or more."""
    file.write_text('draft-tokens = 3\ndraft-model = "org/small"')
    assert show("--config", str(file), "--speculate", "off").exit_code == 0
    assert "no use with --speculate off" in show("--draft-tokens", "3", "--speculate", "off").output
    file.write_text('speculate = "ngram"')
    assert "no use with --speculate ngram" in show("--config", str(file), "--draft-model", "org/small").output
    file.write_text('kv-disk = "1GiB"')
    assert "--kv-disk has no use without --kv-dir" in show("--config", str(file)).output


def test_doctor_takes_its_options_from_the_same_places(file: Path) -> None:
    file.write_text('dtype = "float32"\nslots = 2')
    with doctor.make_context("doctor", ["--config", str(file), "--device", "cpu"]) as ctx:
        assert (ctx.params["dtype"], ctx.params["device"], ctx.params["model"]) == ("float32", "cpu", None)
    file.write_text('dtipe = "float32"')
    with pytest.raises(click.UsageError, match="there is no option 'dtipe'; is dtype meant"):
        doctor.make_context("doctor", ["--config", str(file)])


def test_torch_is_not_needed_to_say_it() -> None:
    script = "import sys; sys.modules['torch'] = None; from web.commands.main import main; main(['config'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
