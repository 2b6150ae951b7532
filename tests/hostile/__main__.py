"""Give many bodies to all parsers: `python -m tests.hostile --examples 10000`; or to all routes: `--application`."""

from __future__ import annotations

import click
import trio
from hypothesis import HealthCheck, Phase, given, settings
from trio.testing import MockClock

from tests.hostile.application import Answers, open_application
from tests.hostile.bodies import WITH_BODY, draw_body, swapped
from tests.hostile.drawn import ask_drawn
from tests.hostile.parsers import Verdicts, any_body, base_model, parse, served_model
from tests.hostile.visits import draw_visit


@click.command()
@click.option("--examples", type=int, default=10_000, show_default=True, help="Bodies that are drawn.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--application", is_flag=True, help="To the whole application on the simulated engine, which is slower.")
def main(examples: int, seed: int, application: bool) -> None:
    """Say how many were understood and refused; fail if one was neither."""
    numbers = range(1_000_000 * seed, 1_000_000 * seed + examples)
    faults = trio.run(_ask, numbers, clock=MockClock(autojump_threshold=0)) if application else _parse(numbers)
    if faults:
        raise SystemExit(1)


def _parse(numbers: range) -> list[str]:
    verdicts = Verdicts()
    for model in (served_model(), base_model()):
        verdicts.take(map(draw_body, numbers), model)
        for operation in WITH_BODY.values():
            verdicts.take(swapped(operation), model)
    click.echo(verdicts)
    for path in WITH_BODY:
        draw(path, len(numbers) // len(WITH_BODY))
    return verdicts.faults


async def _ask(numbers: range) -> list[str]:
    answers = Answers()
    async with open_application() as application:
        await answers.take(map(draw_body, numbers), application)
        await answers.visit(map(draw_visit, numbers[::10]), application)
        click.echo(answers)
        outcome = await ask_drawn(application, len(numbers) // 100)
        click.echo(outcome)
    return answers.faults + outcome.faults


def draw(path: str, examples: int) -> None:
    """Let hypothesis look for a body that the parser of a path neither understands nor refuses."""

    @settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=PHASES
    )
    @given(any_body(path))
    def is_understood_or_refused(raw: bytes) -> None:
        parse(path, raw, served_model())

    is_understood_or_refused()


PHASES = (Phase.generate, Phase.shrink)


if __name__ == "__main__":
    main()
