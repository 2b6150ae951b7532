"""Bad edits of who has a turn on a connection, who is cut off, and when one is closed."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TRANSPORT = "web/http/transport"
UNIT = "tests/unit/web/http/transport"

MUTANTS = (
    Mutant(
        "what waits for others' turns counts as stalled",
        f"{TRANSPORT}/connection.py",
        "while self._turns.is_awaited or taken < self._turns.taken:",
        "while taken < 0:",
        (f"{UNIT}/test_serve_hang_ups.py",),
    ),
    Mutant(
        "who waits for others' turns is idle",
        f"{TRANSPORT}/loop_share.py",
        "        with self._idle_timer.paused():\n            await",
        "        if True:\n            await",
        (f"{UNIT}/test_serve_hang_ups.py",),
    ),
    Mutant(
        "frames that bring no work cost nothing",
        f"{TRANSPORT}/h2_connection.py",
        "        if not self.budget.take(cost(frame), trio.current_time()):\n",
        "        if not self.budget.take(0, trio.current_time()):\n",
        (f"{UNIT}/test_http2.py::test_after_the_word_nothing_more_is_begun",),
    ),
    Mutant(
        "a turn of a connection begins all the requests that have come",
        f"{TRANSPORT}/h2_connection.py",
        "TURN_FRAMES, 1, False\n",
        "10**6, 10**6, False\n",
        (f"{UNIT}/test_h2_connection.py",),
    ),
    Mutant(
        "what is being answered is left no part of the loop",
        f"{TRANSPORT}/loop_share.py",
        " + (1 + REST) * seconds\n",
        " + seconds\n",
        (f"{UNIT}/test_loop_share.py",),
    ),
    Mutant(
        "all that was ever taken of the loop is made up for",
        f"{TRANSPORT}/loop_share.py",
        "min(free_at, now + MOST_REST)",
        "free_at",
        (f"{UNIT}/test_loop_share.py",),
    ),
    Mutant(
        "a connection is not idle again after its last request",
        f"{TRANSPORT}/task_group.py",
        "                    self._idle_timer.begin()\n",
        "                    self._idle_timer.stop()\n",
        (f"{UNIT}/test_connection_idle.py",),
    ),
    Mutant(
        "a connection goes on behind a request with a length and chunks",
        f"{TRANSPORT}/protocols.py",
        "len(framings) > 1 or ",
        "",
        (f"{UNIT}/test_protocols.py",),
    ),
)
