"""Whole scenarios, each fixed by one integer; and that it does fix them.  Each commit plays others: `--rotation`."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from dataclasses import fields, replace
from typing import get_args

import pytest

from actors.core.receipts import CancelReason
from runtime.testing.faults import Fault
from tests.fakes.simulation import Hung
from tests.live.server import ROOT, environment
from tests.rotation import rotation
from tests.sim import __main__ as simulate
from tests.sim.figures import shares
from tests.sim.play import Tally, play
from tests.sim.scenario import draw

SEEDS, BATCH = 60, 15
DRAWN_FROM = 10_000
DRAWN = 300  # and not played
FAR_REACHING = (13, 19, 35, 42, 49, 53, 65, 67, 78, 80, 91, 96, 254)  # seeds in which, between them, everything happens


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" in metafunc.fixturenames:
        chosen = random.Random(rotation(metafunc.config)).sample(range(DRAWN_FROM), SEEDS)
        batches = [chosen[at : at + BATCH] for at in range(0, SEEDS, BATCH)]
        metafunc.parametrize("seeds", batches, ids=[f"{batch[0]} and {BATCH - 1} others" for batch in batches])


def test_what_is_drawn_from_these_seeds(seeds: list[int], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", logger="cede")
    tally, failures = simulate.play_seeds(seeds)
    assert failures == []
    assert tally.scenarios == BATCH


def test_a_seed_fixes_everything() -> None:
    """The order of sets of strings and of objects too, which differs from process to process."""
    command = [sys.executable, "-m", "tests.sim", "--seed", "17"]
    elsewhere = environment() | {"PYTHONHASHSEED": "1"}  # ours is drawn anew for each process
    done = subprocess.run(command, env=elsewhere, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == play(draw(17)).digest


@pytest.mark.parametrize("seed", range(6))
def test_a_servers_instruments_change_nothing(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """No step and no token comes at another moment because somebody watches, however slowly."""
    caplog.set_level("CRITICAL", logger="cede")
    with_them, without = (play(replace(draw(seed), instruments=there)) for there in (True, False))
    assert with_them.digest == without.digest


def test_the_drawn_scenarios_reach_everything() -> None:
    """Each phase is cancelled in, for every reason that takes no socket; each kind of fault happens; blocks lie."""
    tally = Tally()
    with simulate.quiet():
        for seed in FAR_REACHING:
            tally.add(play(draw(seed)).tally)
    assert tally.cancels.keys() == {"queued", "parked", "prefill", "draft", "verify", "decode"}
    assert tally.reasons.keys() == {str(reason) for reason in CancelReason} - {"stalled_reader"}
    kinds = {field.default for kind in get_args(Fault) for field in fields(kind) if field.name == "what"}
    assert kinds - tally.faults.keys() == set()
    assert tally.moves > 0
    assert tally.lies.keys() == {"scenarios", "told", "deceived", "found", "audits", "audits that failed"}
    assert all(tally.lies.values())


def test_a_failure_says_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_down(scenario: object) -> Tally:
        raise Hung("it would wait for ever")

    monkeypatch.setattr(simulate, "play", break_down)
    assert simulate.main(["--seeds", "2", "--first-seed", "40"]) == 1
    said = capsys.readouterr().out
    assert "python -m tests.sim --seed 41" in said
    assert "2 failed" in said
    with pytest.raises(Hung) as caught:
        simulate.play_seed(40)
    assert any("--seed 40" in note for note in caught.value.__notes__)


def test_each_kind_of_control_is_drawn_for_a_third_of_the_scenarios() -> None:
    """Each alone, and what the command prints says so."""
    counts = Counter[str]()
    for seed in range(DRAWN):
        counts.update(shares.drawn(draw(seed)))
    assert counts.keys() == set(shares.NAMES)
    assert {name: count for name, count in counts.items() if count < DRAWN / 3} == {}
    assert "detaches 50% (25%)" in shares.line(Counter(detaches=2), Counter(detaches=1), 4)
