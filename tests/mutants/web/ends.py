"""Bad edits of what nobody may wait for: readers of the log, and a disk that does not answer at the end."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

HANDLER, HANDLER_TESTS = "web/observability/logs/handler.py", ("tests/unit/web/observability/logs/test_handler.py",)
STORE, STORE_TESTS = "web/storage/store.py", ("tests/unit/web/storage/test_store.py",)

MUTANTS = (
    Mutant(
        "a line is taken before it was said that others were lost",
        HANDLER,
        "(self._lost or self._size + len(line) > self._capacity)",
        "self._size + len(line) > self._capacity",
        HANDLER_TESTS,
    ),
    Mutant(
        "lines are lost, and nobody is told",
        HANDLER,
        "                self._tell_lost()\n",
        "",
        HANDLER_TESTS,
    ),
    Mutant(
        "a stream that does not block loses what it has no room for",
        HANDLER,
        "            select.select([], [descriptor], [])\n",
        "            return\n",
        HANDLER_TESTS,
    ),
    Mutant(
        "who waits for the state disk when the end begins waits on",
        STORE,
        "            wait.deadline = trio.current_time() + END_SECONDS\n",
        "            pass\n",
        STORE_TESTS,
    ),
    Mutant(
        "a file that does not close is waited for",
        STORE,
        "        self._patience = END_SECONDS\n        with trio.CancelScope(shield=True)",
        "        with trio.CancelScope(shield=True)",
        STORE_TESTS,
    ),
)
