"""Bad edits of a worker's requests: what cancels one, what ends it, and what becomes of it elsewhere."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.simulation import CLUSTER

BACKEND, HANDOFF, FAILURES = "web/cluster/backend.py", "web/cluster/handoff.py", "web/cluster/failures.py"

MUTANTS = (
    Mutant(
        "who is not wanted any more is heard of only when something is handed over",
        HANDOFF,
        "        gone.add_done_callback(self._let_go)\n",
        "",
        simulation=CLUSTER,
    ),
    Mutant(
        "a request whose answer nobody takes is not cancelled",
        HANDOFF,
        "        self._scope.cancel()\n",
        "",
        simulation=CLUSTER,
    ),
    Mutant(
        "a generator that another thread drops ends its task there",
        HANDOFF,
        "        tell_loop(self._loop, self._let_go)\n",
        "        self._let_go()\n",
        ("tests/unit/web/cluster/test_handoff.py",),
    ),
    Mutant(
        "a later attempt of a request does not wait for the one before",
        BACKEND,
        "            async with self._attempts.alone(asked.id):\n",
        "            async with self._attempts.alone(str(id(asked))):\n",
        simulation=CLUSTER,
    ),
    Mutant(
        "what a shutdown has cancelled counts as finished",
        BACKEND,
        "            case Finished(cancelled=CancelReason.SHUTDOWN):\n",
        "            case Finished(cancelled=CancelReason.SUPERSEDED):\n",
        simulation=CLUSTER,
    ),
    Mutant(
        "a stream on which nothing comes gives no sign of life",
        HANDOFF,
        "timeout=patience)",
        "timeout=None)",
        simulation=CLUSTER,
    ),
    Mutant(
        "a loss of the device is the client's answer",
        FAILURES,
        "        case ShuttingDown() | DeviceLost():\n",
        "        case ShuttingDown():\n",
        simulation=CLUSTER,
    ),
    Mutant(
        "an answer ends with the first of its choices that does",
        BACKEND,
        "                if error is not None:\n                    return error\n",
        "                if error is not None or isinstance(event, Finished):\n                    return error\n",
        simulation=CLUSTER,
    ),
)
