"""`python -m tests.live.schemas`: generations over the hundred schemas, or over a hundred of a folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from actors.generating.grammars import compiler_of
from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.loading.load import describe_model
from runtime.loading.options import LoadOptions
from runtime.store.resolve import resolve_model
from tests.live.schemas.cases import Case, load_cases
from tests.live.schemas.run import FLAGS, generate
from tests.live.server import Server


@click.command(help=__doc__)
@click.option("--generations", default=500, show_default=True)
@click.option("--model", help="As for `cede serve`; the embedded model by default.")
@click.option("--speculate", multiple=True, help="As for `cede serve`; each on its own server.")
@click.option("--max-tokens", default=300, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--folder", type=Path, help="Of schemas, as JSONSchemaBench's, of which a hundred are chosen.")
def main(
    generations: int, model: str | None, speculate: Sequence[str], max_tokens: int, seed: int, folder: Path | None
) -> None:
    """Generate, say what came of it, and fail if anything was not as it should be."""
    cases = load_cases(folder)
    proposers = speculate or (("off", "ngram") if model else ("off", "ngram", "mtp", "draft"))
    reports = []
    for place, proposer in enumerate(proposers):
        flags = [*FLAGS, "--speculate", proposer, *(("--model", model) if model else ())]
        with Server(*flags) as server:
            numbers = range(generations * place // len(proposers), generations * (place + 1) // len(proposers))
            reports.append(generate(server, proposer, cases, numbers, max_tokens=max_tokens, seed=seed))
        click.echo(reports[-1])
    click.echo(describe_compiling(cases, model))
    for report in reports:
        report.check()


def describe_compiling(cases: Sequence[Case], model: str | None) -> str:
    """Say what the schema that takes longest takes to be compiled for a model, in the time of a processor."""
    described, _ = describe_model(LoadOptions(resolve_model(model), context=1024), "schemas")
    compiler = compiler_of(described)
    compiler.compile(Grammar(GrammarKind.REGEX, "a"))  # makes the vocabulary
    seconds = {}
    for case in cases:
        begun = time.thread_time()
        try:
            compiler.compile(Grammar(GrammarKind.JSON_SCHEMA, case.source))
        except RequestError:
            continue
        seconds[case.name] = time.thread_time() - begun
    slowest = max(seconds, key=seconds.__getitem__)
    return f"{len(seconds)} schemas compile; the slowest takes {seconds[slowest] * 1e3:.0f} ms: {slowest}"


if __name__ == "__main__":
    main()
