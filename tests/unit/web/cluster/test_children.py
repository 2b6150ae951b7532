"""Children that are one-line programs of Python."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.live.server import PATIENCE
from web.cluster.children import ENDING_SECONDS, FIRST_DELAY, Child, ClusterFailed, Program, run_children

ROOT = Path(__file__).parents[4]
SERVES = "import sys, time; print('serves', flush=True); sys.stdin.read()"
STOPS = (  # blocked, so that a signal which comes before the wait is not lost
    "import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]);"
    "os.write(1, b'serves\\n'); signal.sigwait([signal.SIGTERM]); os.write(1, b'stopped\\n')"
)


def child(source: str, lines: list[str], name: str = "worker 1") -> Child:
    return Child(Program(name, [sys.executable, "-c", source], {}), lines.append)


async def test_one_that_ends_before_it_served_is_not_started_again() -> None:
    with pytest.raises(ClusterFailed, match="worker 1 ended with status 3 before it served"):
        await child("raise SystemExit(3)", []).run()


async def test_one_that_dies_is_started_again_with_a_delay_until_it_is_stopped(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    del autojump_clock  # the delays take no time
    count = tmp_path / "count"
    count.write_text("")
    source = (
        f"import pathlib; file = pathlib.Path({str(count)!r});"
        "n = len(file.read_text()); file.write_text('x' * (n + 1));"
        "print('serves', n, flush=True)"
    )
    lines: list[str] = []
    one = child(source, lines)

    def told(line: str) -> None:
        lines.append(line)
        if len(lines) == 3:
            one.stop()

    one = Child(one.program, told)
    began = trio.current_time()
    await one.run()
    assert lines == ["serves 0", "serves 1", "serves 2"]
    assert trio.current_time() - began >= 3 * FIRST_DELAY


async def test_a_signal_stops_the_workers_first_and_the_front_door_after_them() -> None:
    lines: list[str] = []

    def say(name: str) -> Child:
        return Child(Program(name, [sys.executable, "-c", STOPS], {}), lambda line: tell(f"{name} {line}"))

    def tell(line: str) -> None:
        lines.append(line)
        if line == "door serves":
            signal.raise_signal(signal.SIGTERM)

    with trio.fail_after(PATIENCE):
        await run_children([say("one"), say("two")], say("door"))
    assert sorted(lines[:2]) == ["one serves", "two serves"]
    assert lines[2] == "door serves"
    assert sorted(lines[3:5]) == ["one stopped", "two stopped"]
    assert lines[5] == "door stopped"


async def test_a_failed_start_ends_all() -> None:
    lines: list[str] = []
    with trio.fail_after(PATIENCE), pytest.raises(ExceptionGroup) as caught:
        await run_children(
            [child(SERVES, lines), child("raise SystemExit(3)", lines, "worker 2")], child(SERVES, lines)
        )
    assert caught.group_contains(ClusterFailed, match="worker 2")


async def test_a_child_whose_parent_is_gone_stops() -> None:
    source = (
        "import signal, sys; from web.cluster.children import stop_with_parent; stop_with_parent();"
        "print('serves', flush=True); signal.pause()"
    )
    process = await trio.lowlevel.open_process([sys.executable, "-c", source], stdin=-1, stdout=-1, cwd=ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    with trio.fail_after(PATIENCE):
        assert await process.stdout.receive_some(1) == b"s"  # that it serves
        await process.stdin.aclose()
        assert await process.wait() == -signal.SIGTERM
    await process.stdout.aclose()


DEAF = (
    "import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]);"
    "os.write(1, b'serves\\n'); signal.pause()"
)


async def test_one_that_does_not_end_when_it_is_asked_is_killed(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    del autojump_clock  # its time takes none
    lines: list[str] = []

    def told(line: str) -> None:
        lines.append(line)
        began.append(trio.current_time())
        one.stop()

    began: list[float] = []
    one = Child(Program("worker 1", [sys.executable, "-c", DEAF], {}, grace=3), told)
    await one.run()
    assert lines == ["serves"]
    assert trio.current_time() - began[0] == pytest.approx(3 + ENDING_SECONDS)
    assert "worker 1 was to end and has not" in caplog.text
