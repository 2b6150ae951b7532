"""`cede doctor`: what cede finds on this machine and, with --self-test, whether it works there.

The report is made to be attached to an issue: it names no host, no person and no path.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from runtime.common.units import counted
from web.commands.options.flags import SectionedCommand, option_flag, option_flags
from web.commands.options.parameters import EXISTING_FOLDER
from web.process.failures import said_in_a_line
from web.process.signals import exit_now, exit_on_signals, unwound_by_signals
from web.process.streams import say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TextIO

    from runtime.selftest.findings import Figures, Finding
    from runtime.selftest.machine import Facts

SCHEMA = {"name": "cede doctor", "version": 1}  # raised whenever a reader of reports would have to know


@click.command(cls=SectionedCommand, short_help="Say what is here, and whether cede works on it.")
@click.option(
    "--self-test",
    "test",
    is_flag=True,
    help="Run a model and check what comes of it: half a minute, more on a slow machine.",
)
@option_flags("model", "models-dir", "device", "dtype")
@option_flag("kv-dir", type=EXISTING_FOLDER, help="Look into this folder of KV, too.")
@click.option(
    "--json",
    "file",
    type=click.File("w", lazy=False),  # opened before the tests are run for it
    help="Write the report here as JSON, too; - for the terminal, and nothing else to it.",
)
@said_in_a_line()
def doctor(
    test: bool,
    model: str | None,
    models_dir: Path | None,
    device: str,
    dtype: str,
    kv_dir: Path | None,
    file: TextIO | None,
) -> None:
    """Say what is here and, with --self-test, whether cede works on it.

    The report holds no names of hosts, people or folders.  Exits with 1 if a check failed.
    """
    exit_on_signals()
    say_line = partial(say, err=file is not None and file.name == "<stdout>")
    path = _found(model, models_dir)
    facts = _facts(path, device, dtype, kv_dir, named=model is not None)
    for line in fact_lines(facts):
        say_line(line)
    findings = _self_test(path, device, dtype, say_line) if test else []
    if file is not None:
        file.write(json.dumps(report(facts, findings), indent=2) + "\n")
    if any(finding.status == "FAIL" for finding in findings):
        sys.exit(1)


def report(facts: Facts, findings: Sequence[Finding]) -> dict[str, object]:
    """All of it, as it is written in JSON."""
    failed = any(finding.status == "FAIL" for finding in findings)
    return {
        "schema": SCHEMA,
        "machine": facts,
        "checks": [asdict(finding) for finding in findings],
        "result": ("FAIL" if failed else "PASS") if findings else None,
    }


def fact_lines(facts: Facts) -> list[str]:
    """Names and what they stand for, in two columns."""
    width = max(map(len, facts))
    return [f"{name:<{width}}  {fact}" for name, fact in facts.items()]


def finding_lines(finding: Finding) -> list[str]:
    """One check: its status, its time, then its figures; and what went wrong."""
    lines = [f"{finding.status}  {finding.group}: {finding.name} ({finding.seconds:.1f} s)"]
    if finding.problem:
        lines.append(f"      {finding.problem}")
    if finding.where:
        lines.append(f"      at {', '.join(finding.where)}")
    if finding.figures:
        lines.append(f"      {_figures(finding.figures)}")
    return lines


def _figures(figures: Figures) -> str:
    def number(value: float | int | str) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    return ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in figures.items())


def _found(model: str | None, models_dir: Path | None) -> Path:
    """Return where the model lies; it is downloaded if it is not here yet."""
    from runtime.store.resolve import resolve_model
    from web.commands.progress import DownloadProgress

    with unwound_by_signals(lambda number: exit_now(128 + number)):
        return resolve_model(model, models_dir, DownloadProgress())


def _facts(path: Path, device: str, dtype: str, kv_dir: Path | None, *, named: bool) -> Facts:
    from runtime.checkpoint.open import open_checkpoint
    from runtime.selftest.machine import (
        describe_choice,
        describe_embedded,
        describe_fit,
        describe_kv_folder,
        describe_machine,
    )

    config = open_checkpoint(path).config
    facts = describe_machine() | describe_choice(device, dtype, config.dtype) | {"embedded model": describe_embedded()}
    if named:
        facts["model"] = f"{config.architecture}, {counted(config.num_layers, 'layer')} of {config.hidden_size}"
        facts |= describe_fit(path, device, dtype)
    if kv_dir is not None:
        facts["KV folder"] = describe_kv_folder(kv_dir)
    return facts


def _self_test(path: Path, device: str, dtype: str, say_line: Callable[[str], None]) -> list[Finding]:
    """The findings, each said as it comes, and what they come to."""
    import trio

    from runtime.loading.options import LoadOptions
    from web.selftest import Sizes, self_test

    findings: list[Finding] = []

    def tell(finding: Finding) -> None:
        findings.append(finding)
        for line in finding_lines(finding):
            say_line(line)

    options = LoadOptions(path, device=device, dtype=dtype)
    trio.run(self_test, options, Sizes(), tell)
    counts = {status: sum(finding.status == status for finding in findings) for status in ("PASS", "FAIL", "SKIP")}
    say_line(", ".join(f"{count} {status}" for status, count in counts.items()))
    return findings
