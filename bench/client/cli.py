"""`cede bench`: a group of commands with one subcommand for each scenario."""

from __future__ import annotations

import dataclasses
import importlib.util
import random
import signal
import typing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.client.harness import targets
from bench.client.harness.figures import Record
from bench.client.harness.runner import Plan, begin_record, leaves, run
from bench.client.harness.targets import TargetError, check_loopback, parse_target, read_targets
from bench.client.reports.report import markdown, write_report
from bench.client.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from bench.client.harness.targets import Target
    from bench.client.harness.turn import Scenario

SEED_BITS = 32
LIBRARIES = ("matplotlib", "psutil")  # of the extra `bench`; the help texts need neither
# Click wraps paragraphs, except those that begin with \b.
TARGETS_HELP = "Check a file of targets, and list what is in it.\n\n" + (targets.__doc__ or "").replace(
    "\n\n", "\n\n\b\n"
)
FOLDER = click.Path(file_okay=False, path_type=Path)


class Numbers(click.ParamType["tuple[int, ...]"]):
    """A click type: whole numbers with commas between them."""

    name = "N,N,…"

    def convert(
        self,
        value: Any,  # noqa: ANN401
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[int, ...]:
        """Parse the numbers; a default is a tuple already."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of whole numbers", param, ctx)


class Terminal:
    """Shows on the terminal how far a run has come; a `runner.Progress`.

    Args:
        title: of the run.
        turns: of all targets in all rounds.
    """

    def __init__(self, title: str, turns: int) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        self.progress = Progress(*columns, console=Console(stderr=True))
        self._task = self.progress.add_task(title, total=turns)
        self._turn = title

    def begin_turn(self, round: int, target: str) -> None:
        """Show that a target's turn begins; `round` counts from 0."""
        self._turn = f"round {round + 1}, {target}"
        self.note("")

    def note(self, what: str) -> None:
        """Show what is being done."""
        self.progress.update(self._task, description=f"{self._turn}: {what}" if what else self._turn)

    def end_turn(self) -> None:
        """Count a turn that has ended."""
        self.progress.advance(self._task)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def bench() -> None:
    """Measure servers that speak OpenAI's API, side by side.

    \b
      cede bench run throughput --target cede=http://127.0.0.1:8000 \\
          --target other=http://127.0.0.1:8081

    Each target has its turn in every round; figures are medians over the rounds, and ratios are taken round by round,
    of the first target against each other one.  Results go to a folder: SCENARIO.json, and a report of all results in
    it (report.md, report.html and plots).  `cede bench targets --help` says how to have servers started.
    """  # noqa: D301  # click's mark is the character itself


@bench.group("run")
def run_group() -> None:
    """Run one scenario.  Each has a help text of its own."""


@bench.command("targets", help=TARGETS_HELP)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def targets_command(file: Path) -> None:
    """Check a file of targets, and list them."""
    for target in _chosen([], file, allow_remote=True):
        click.echo(f"{target.name}: {target.url}{', started by cede bench' if target.command else ''}")


@bench.command()
@click.argument("folder", type=FOLDER)
def report(folder: Path) -> None:
    """Write the report of all results in FOLDER anew."""
    _require_libraries()
    for page in _report(folder):
        click.echo(page)


# --- one subcommand for each scenario -------------------------------------------------------------------------------


def options_of(scenario: type[Scenario]) -> list[click.Option]:
    """Return one option for each field of a scenario."""
    types = typing.get_type_hints(scenario)
    made = []
    for field in dataclasses.fields(scenario):  # type: ignore[arg-type]
        default: Any = field.default
        many = isinstance(default, tuple)
        shown = ",".join(map(str, default)) if many else default
        kind = Numbers() if many else types[field.name]
        help_text = f"{field.metadata['help']}  [default: {shown}]"
        made.append(click.Option([f"--{field.name.replace('_', '-')}"], type=kind, default=default, help=help_text))
    return made


COMMON = [
    click.Option(
        ["--target", "given"], multiple=True, metavar="NAME=URL", help="A server that runs.  May be repeated."
    ),
    click.Option(
        ["--targets", "file"],
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="TOML file of targets, started if they have a command.",
    ),
    click.Option(["--rounds"], type=click.IntRange(min=1), default=5, show_default=True, help="Turns of each target."),
    click.Option(["--seed"], type=int, help="Of prompts and moments.  [default: another one for each run]"),
    click.Option(
        ["--limit"],
        type=click.FloatRange(min=0),
        default=120.0,
        show_default=True,
        help="Seconds after which waiting for a server to be free is given up.",
    ),
    click.Option(["--exclusive"], is_flag=True, help="Have each target up in its own turns only."),
    click.Option(["--out", "folder"], type=FOLDER, default="bench-results", show_default=True, help="For the results."),
    click.Option(["--allow-remote"], is_flag=True, help="Send load to other machines too.  Ask their owners first."),
]


def _run_scenario(
    scenario: type[Scenario],
    given: Sequence[str],
    file: Path | None,
    rounds: int,
    seed: int | None,
    limit: float,
    exclusive: bool,
    folder: Path,
    allow_remote: bool,
    **sizes: Any,  # noqa: ANN401  # as the scenario declares them
) -> None:
    _require_libraries()
    chosen = _chosen(given, file, allow_remote)
    plan = Plan(rounds, random.getrandbits(SEED_BITS) if seed is None else seed, limit, exclusive)
    folder.mkdir(parents=True, exist_ok=True)
    terminal = Terminal(scenario.name, rounds * len(chosen))
    sized = scenario(**sizes)
    record = begin_record(sized, chosen, plan)
    try:
        _run(partial(run, sized, chosen, plan, record, logs=folder, progress=terminal), terminal)
    finally:
        if record.samples or record.failures:  # also of a run that was cut short
            record.save(folder / f"{scenario.name}.json")
            click.echo(markdown([record]))
            for page in _report(folder):
                click.echo(page, err=True)
    measured = {sample.target for sample in record.samples}
    if failed := [name for name in record.targets if name not in measured]:
        raise click.ClickException(f"no turn of {', '.join(failed)} came to its end; see above for why")


def _require_libraries() -> None:
    """Raise ClickException where the extra `bench` is not installed."""
    if missing := [name for name in LIBRARIES if importlib.util.find_spec(name) is None]:
        raise click.ClickException(f"this needs {' and '.join(missing)}: pip install 'cede[bench]'")


def _run(measure: Callable[[], Awaitable[None]], terminal: Terminal) -> None:
    """Run a measurement.  Raises ClickException if a target does not come up, and Abort on Ctrl-C or SIGTERM."""
    unavailable: list[BaseException] = []
    interrupted = False
    try:
        with terminal.progress:
            trio.run(_until_terminated, measure)
    except* TargetError as group:
        unavailable = leaves(group)
    except* KeyboardInterrupt:
        interrupted = True
    if interrupted:
        raise click.Abort
    if unavailable:
        raise click.ClickException("; ".join(map(str, unavailable)))


async def _until_terminated(measure: Callable[[], Awaitable[None]]) -> None:
    """Run a measurement to its end or to SIGTERM, which is treated as Ctrl-C: targets that were started are stopped."""
    async with trio.open_nursery() as nursery:
        await nursery.start(_interrupt_on_sigterm)
        await measure()
        nursery.cancel_scope.cancel()


async def _interrupt_on_sigterm(task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        task_status.started()
        await anext(signals)
        raise KeyboardInterrupt


def _chosen(given: Sequence[str], file: Path | None, allow_remote: bool) -> list[Target]:
    """Return all targets, in the order given.  Raises ClickException."""
    try:
        chosen = [*map(parse_target, given), *(read_targets(file) if file else [])]
        if not allow_remote:
            for target in chosen:
                check_loopback(target)
    except TargetError as error:
        raise click.ClickException(str(error)) from None
    names = [target.name for target in chosen]
    if not names or len(names) != len(set(names)):
        raise click.ClickException("give at least one target, and a different name to each")
    return chosen


def _report(folder: Path) -> list[Path]:
    try:
        records = [Record.load(path) for path in sorted(folder.glob("*.json"))]
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    order = list(SCENARIOS)
    return write_report(sorted(records, key=lambda record: order.index(record.scenario)), folder)


def _command(scenario: type[Scenario]) -> click.Command:
    text = scenario.__doc__ or ""
    return click.Command(
        scenario.name,
        callback=partial(_run_scenario, scenario),
        params=[*options_of(scenario), *COMMON],
        help=text,
        short_help=" ".join(text.partition("\n\n")[0].split()),  # the whole sentence, which click would cut short
    )


for _scenario in SCENARIOS.values():
    run_group.add_command(_command(_scenario))
