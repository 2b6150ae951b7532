"""Known-bad edits, one at a time, to a private copy of the source: does anything notice?

    python -m tests.mutants                 all of them
    python -m tests.mutants --write         and their table goes to tests/mutants/MUTANTS.md
    python -m tests.mutants -k draft        those with that in their name

Each mutant meets the simulation first, a few hundred seeds of it, and then the tests that are named for it.  A mutant
whose old text is not found, or is found twice, is an error: the source has moved on, and the mutant must follow.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.live.server import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Sequence

SEEDS = 500
PATIENCE = 300.0  # seconds for one command; a mutant may spin
PACKAGES = ("runtime", "actors", "web", "tests")


PAGE = """# Mutants, and who notices them

Each is a known-bad edit, made alone in a private copy of the source by `python -m tests.mutants --write`, which wrote
this table.  It meets the first few hundred seeds of `python -m tests.sim`; the invariant that noticed it first is
named, with the seed (`tests/sim/invariants.py` lists I1 to I10).  Where none did, the test that does is named.

| mutant | in | caught by |
|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bad idea.

    Attributes:
        name: what it does.
        path: of the file that it changes.
        old, new: the edit; `old` is found once.
        tests: that may catch what the simulation does not.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...] = ()


MUTANTS = (
    Mutant(
        "one stop flag for all (seed 2)",
        "runtime/step/step.py",
        "if segments[i].mark.at is None]",
        "if all(segment.mark.at is None for segment in segments)]",
    ),
    Mutant(
        "marks are read before the first layer only",
        "runtime/step/step.py",
        "        alive = _drop_cancelled(",
        "        alive = alive if index else _drop_cancelled(",
    ),
    Mutant(
        "the cancelled rows are dropped from the results, but not from the batch",
        "runtime/step/step.py",
        "        model.shrink(batch, kept)\n",
        "        pass\n",
    ),
    Mutant(
        "the mailbox is not drained while anyone drafts (seed 3)",
        "actors/manager/slot_manager.py",
        "        while self._mailbox:\n            mail",
        '        while self._mailbox and not any(one.phase == "draft" for one in self._leases.values()):\n'
        "            mail",
    ),
    Mutant(
        "the mailbox is not drained after KV was moved",
        "actors/manager/slot_manager.py",
        "        self._drain()\n        self._admit()  # a slot",
        "        self._admit()  # a slot",
    ),
    Mutant(
        "a slot that came free while KV was moved waits for the next step",
        "actors/manager/slot_manager.py",
        "        self._admit()  # a slot that came free while KV was moved does not wait for this step\n",
        "",
        (
            "tests/scenarios/kv/test_restore.py::test_a_slot_that_comes_free_while_kv_is_moved_is_granted_before_the_next_step",
        ),
    ),
    Mutant(
        "release before the step in flight ends",
        "actors/manager/slot_manager.py",
        "        self.post(lease)\n        with trio",
        "        self._release(lease)\n        with trio",
    ),
    Mutant(
        "a cancel is ignored while queued",
        "actors/manager/slot_manager.py",
        "            await lease.grant.wait(lease.note_cancel)\n",
        "            with trio.CancelScope(shield=True):\n                await lease.grant.wait(lease.note_cancel)\n",
    ),
    Mutant(
        "a slot is granted to one that was cancelled",
        "actors/manager/slot_manager.py",
        "if lease.mark.at is None and lease.lost is None]:",
        "]:",
    ),
    Mutant(
        "the last to come is served first",
        "actors/manager/slot_manager.py",
        "for lease in [lease for lease in self._queue if",
        "for lease in [lease for lease in reversed(self._queue) if",
    ),
    Mutant(
        "the receipt of one who was still queued is lost",
        "actors/manager/slot_manager.py",
        "        if lease.reason is not None:\n            receipt = ",
        "        if lease.reason is not None and slot_freed_at is not None:\n            receipt = ",
    ),
    Mutant(
        "KV from before a loss of the device is used",
        "actors/manager/slot_manager.py",
        "            self.table.invalidate(slot)\n        if not",
        "            pass\n        if not",
    ),
    Mutant(
        "who is queued is sent away when the device thread ends",
        "actors/manager/slot_manager.py",
        "        if not isinstance(loss, DeviceThreadEnded):",
        "        if True:",
    ),
    Mutant(
        "an audit that finds something has no consequence",
        "actors/manager/slot_manager.py",
        "        return await audit(lease, self.table, self.cache)\n",
        "        await audit(lease, self.table, self.cache)\n        return True\n",
        ("tests/scenarios/kv/test_audit.py",),
    ),
    Mutant(
        "a restart forgives the blocks that were restored",
        "actors/manager/slot_manager.py",
        "        self.cache.verdicts.strike(lease.restored)\n        self._steps",
        "        self._steps",
        ("tests/scenarios/kv/test_unusable_kv.py", "tests/scenarios/kv/test_audit.py"),
    ),
    Mutant(
        "what was cancelled inside the step is committed",
        "actors/manager/step_runner.py",
        "        elif result.computed:\n",
        "        else:\n",
    ),
    Mutant(
        "lengths are not trimmed after a rejection",
        "actors/manager/step_runner.py",
        "segment.token_ids[: len(segment.token_ids) - (drafted - accepted)]",
        "segment.token_ids",
    ),
    Mutant(
        "rejected drafts count as kept",
        "actors/manager/step_runner.py",
        "        lease.committed += len(rows)\n",
        "        lease.committed += len(segment.token_ids)\n",
    ),
    Mutant(
        "the drafter's KV is not trimmed after a rejection",
        "actors/core/slots.py",
        "        self._trim_draft(slot, start + 1 if self._drafts_from_states else len(slot.tokens))\n",
        "        pass\n",
    ),
    Mutant(
        "a drafter that ran ahead of its target keeps its rows",
        "actors/core/slots.py",
        "start + 1 if self._drafts_from_states else len(slot.tokens)",
        "len(slot.tokens)",
    ),
    Mutant(
        "who was in a step that raised is not tried alone",
        "actors/manager/step_runner.py",
        "            planned.work.suspect = True\n",
        '            self._fail(planned, "the device failed")\n',
    ),
    Mutant(
        "a slot over which a step failed goes on being used",
        "actors/manager/step_runner.py",
        "        else:\n            self.invalidate(lease)\n        planned",
        "        planned",
    ),
    Mutant(
        "a fault while drafting costs the request",
        "actors/generating/drafting.py",
        "        except StepFailed as error:\n",
        "        except ZeroDivisionError as error:\n",
    ),
    Mutant(
        "an end inside a run of accepted drafts keeps the rest",
        "actors/manager/slot_manager.py",
        "            self.table.trim(lease.slot, min(lease.keep, lease.length))\n",
        "            pass\n",
        ("tests/scenarios/speculation/test_drafting.py",),
    ),
    Mutant(
        "a cached block stays after it failed (seed 4)",
        "actors/kv/verdicts.py",
        "        dropped = self._drop(set(keys))\n",
        "        dropped = 0\n",
        ("tests/scenarios/kv/test_unusable_kv.py",),
    ),
    Mutant(
        "what was computed on a lie and displaced is kept after an audit has found it",
        "actors/kv/verdicts.py",
        "        self._waiting.forget_what_stands_on(wrong)\n",
        "",
        ("tests/scenarios/kv/test_provenance.py",),
    ),
    Mutant(
        "what is displaced stands on nothing that its slot stood on before the grant",
        "actors/core/slots.py",
        "        slot.before = slot.resident()\n",
        "        slot.before = Resident(slot.tokens)\n",
        ("tests/scenarios/kv/test_provenance.py",),
    ),
    Mutant(
        "what was found wrong on its way out of a slot is kept",
        "actors/kv/mover.py",
        "            if self._cache.waiting.is_taken(slot, block):",
        "            if True:",
        ("tests/scenarios/kv/test_provenance.py",),
    ),
    Mutant(
        "what was computed on a lie and kept outlives it",
        "actors/kv/verdicts.py",
        "self._drop(severed(self._tiers.parents(), self._root, wrong))",
        "self._drop(set(wrong))",
        ("tests/scenarios/kv/test_provenance.py",),
    ),
    Mutant(
        "a restored block stands on no ancestor of its",
        "actors/kv/restore.py",
        "stands_on=lease.prompt.keys[: end // BLOCK_TOKENS]",
        "stands_on=[block.key for block in blocks]",
        ("tests/scenarios/kv/test_provenance.py",),
    ),
    Mutant(
        "who strikes waits for the disk",
        "runtime/kv/disk/write_queue.py",
        "            self._blocks.forget(struck)\n",
        "            self._blocks.forget(struck)\n            self._blocks.remove_forgotten()\n",
        ("tests/unit/runtime/kv/disk/test_tier_drops.py",),
    ),
    Mutant(
        "a block that is struck while its file gets its name is there",
        "runtime/kv/disk/blocks.py",
        "            if self._naming != key:\n",
        "            if False:\n",
        ("tests/unit/runtime/kv/disk/test_tier_drops.py",),
    ),
    Mutant(
        "a block that was struck while it was fetched comes back",
        "actors/kv/prefix_cache.py",
        "        if self.verdicts.alarms != alarms:  # some",
        "        if False:  # some",
        ("tests/scenarios/kv/test_unusable_kv.py", "tests/scenarios/kv/test_failing_sources.py"),
    ),
    Mutant(
        "who is cancelled waits for his read from disk",
        "actors/kv/disk_reader.py",
        "        await read.ended.wait()\n",
        "        with trio.CancelScope(shield=True):\n            await read.ended.wait()\n",
        ("tests/unit/actors/kv/test_disk_reader.py",),
    ),
    Mutant(
        "a read from disk that hangs is waited for",
        "actors/kv/disk_reader.py",
        "            with trio.move_on_after(READ_SECONDS) as patience:",
        "            with trio.CancelScope() as patience:",
        ("tests/unit/actors/kv/test_disk_reader.py",),
    ),
    Mutant(
        "a disk that hangs is asked by everybody",
        "actors/kv/disk_reader.py",
        "        return not self._threads.borrowed_tokens and trio.current_time() >= self._ask_again_at\n",
        "        return True\n",
        ("tests/unit/actors/kv/test_disk_reader.py",),
    ),
    Mutant(
        "the end waits for a writer that hangs",
        "runtime/kv/disk/writer.py",
        "        self._thread.join(MAX_LAST_WRITE_SECONDS)\n",
        "        self._thread.join()\n",
        ("tests/unit/runtime/kv/disk/test_tier.py",),
    ),
    Mutant(
        "a process that was stopped takes its device to hang",
        "runtime/step/executor.py",
        "TURNS = 10 ",
        "TURNS = 1 ",
        ("tests/unit/runtime/step/test_executor_lost_thread.py",),
    ),
    Mutant(
        "a prefix is copied without asking whether it is still there (seed 5)",
        "actors/kv/mover.py",
        "        if move.still_valid():\n",
        "        if True:\n",
        ("tests/scenarios/kv/test_failing_sources.py",),
    ),
    Mutant(
        "what is copied leaves its trial behind",
        "actors/kv/mover.py",
        "trial=[*move.on_trial, *(key for source in sources for key in source.trial)]",
        "trial=list(move.on_trial)",
        ("tests/scenarios/kv/test_unusable_kv.py",),
    ),
    Mutant(
        "KV is written over before it is saved",
        "actors/manager/step_runner.py",
        " or self._cache.waiting.any_of(lease.slot.id):\n",
        ":\n",
    ),
    Mutant(
        "a slot's tokens are not trimmed to the prompt that it is granted to (seed 5)",
        "actors/core/slots.py",
        "        slot.tokens = slot.tokens.head(usable)\n        self.trim(slot, usable)\n",
        "        slot.tokens = slot.tokens.head(len(slot.tokens))\n",
    ),
    Mutant(
        "the prompt's last token is taken from the cache",
        "actors/core/slots.py",
        "return min(slot.tokens.shared_with(prompt), len(prompt) - 1)",
        "return slot.tokens.shared_with(prompt)",
    ),
    Mutant(
        "the shortest prompts take all of a step's rows, and the oldest starves",
        "actors/manager/planner.py",
        "shares[0] = min(wanted[0], (budget + 1) // 2)",
        "shares[0] = 0",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; its exit status: 1 if a mutant survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("-k", dest="word", default="", help="only mutants with this in their name")
    parser.add_argument("--write", action="store_true", help="keep the table")
    options = parser.parse_args(arguments)
    rows: list[str] = []
    survivors = 0
    for mutant in MUTANTS:
        if options.word in mutant.name:
            caught = try_out(mutant)
            survivors += caught is None
            rows.append(f"| {mutant.name} | `{mutant.path}` | {caught or '**nothing**'} |")
            print(rows[-1], flush=True)
    if options.write:
        (ROOT / "tests" / "mutants" / "MUTANTS.md").write_text(PAGE + "\n".join(rows) + "\n")
    return 1 if survivors else 0


def mutated(mutant: Mutant, source: str) -> str:
    """The file's text with the edit.  Raises ValueError if the old text is not there once."""
    count = source.count(mutant.old)
    if count != 1:
        raise ValueError(f"{mutant.name!r}: its old text is {count} times in {mutant.path}")
    return source.replace(mutant.old, mutant.new)


def try_out(mutant: Mutant) -> str | None:
    """What catches the mutant; None if nothing does."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        _copy_source(copy)
        path = copy / mutant.path
        path.write_text(mutated(mutant, path.read_text()))
        return _simulated(copy) or _tested(copy, mutant.tests)


def _copy_source(copy: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)


def _simulated(copy: Path) -> str | None:
    said = _run(copy, "-m", "tests.sim", "--seeds", str(SEEDS), "--fail-fast")
    if said is None:
        return "simulation: it never ends"
    failed = re.search(r"^    seed (\d+): (?:\w+: )?(.*)$", said, re.MULTILINE)
    if failed is None:
        return None
    invariant = re.search(r"I\d+(?=: )", failed[2])
    what = invariant[0] if invariant else re.sub(r"[|`\[\]]", "", failed[2])[:60]
    return f"{what} (seed {failed[1]})"


def _tested(copy: Path, tests: Sequence[str]) -> str | None:
    if not tests:
        return None
    said = _run(copy, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)
    if said is None:
        return f"{tests[0]}: it never ends"
    failed = re.search(r"^FAILED (\S+)", said, re.MULTILINE)
    return f"`{failed[1].partition('[')[0]}`" if failed else None


def _run(copy: Path, *arguments: str) -> str | None:
    """What a Python of its own says, None if it does not come to an end.  Raises if it could not even start."""
    paths = {"PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=copy,
            env=environment() | paths,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    if "scenarios" not in done.stdout and "passed" not in done.stdout and "failed" not in done.stdout:
        raise RuntimeError(f"the mutant does not run: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
