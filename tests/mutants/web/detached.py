"""Bad edits of requests that may outlive their clients: what is replayed to whom, and for how long they go on."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LOG, HANG_UP = "web/storage/detached/event_log.py", "web/storage/detached/disconnects.py"
UNIT = "tests/unit/web/storage/detached"

MUTANTS = (
    Mutant(
        "who comes back is told an event again",
        LOG,
        "        self._position = position\n",
        "        self._position = max(0, position - 1)\n",
        (f"{UNIT}/test_event_log.py",),
    ),
    Mutant(
        "who comes back misses an event",
        LOG,
        "        self._position += 1\n        self._unsent",
        "        self._position += 1 + (self._position == 3)\n        self._unsent",
        (f"{UNIT}/test_event_log.py",),
    ),
    Mutant(
        "another key may attach",
        "web/storage/detached/runs.py",
        "        return run if run is not None and run.owner == owner else None\n",
        "        return run\n",
        (f"{UNIT}/test_routes.py",),
    ),
    Mutant(
        "one that nobody reads goes on for ever",
        HANG_UP,
        "    return min(unsaid if control.grace_s is None else control.grace_s, most_seconds)\n",
        "    return 1e6 if control.on_disconnect == 'detach' else min(control.grace_s or unsaid, most_seconds)\n",
        (f"{UNIT}/test_disconnects.py",),
    ),
    Mutant(
        "tokens that nobody reads have no bound",
        HANG_UP,
        "            if self._run.unread_tokens > self._most_tokens:\n",
        "            if self._run.unread_tokens > self._most_tokens and self._run.readers:\n",
        (f"{UNIT}/test_disconnects.py",),
    ),
    Mutant(
        "an answer that is kept counts as its events alone",
        "web/storage/detached/run.py",
        "        return RUN_BYTES + self.log.held\n",
        "        return self.log.size\n",
        (f"{UNIT}/test_run_kept.py",),
    ),
)
