"""Bad edits of how a connection's bytes are written: their order, and who has a turn meanwhile."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

WRITER = "web/http/transport/writer.py"
UNIT = "tests/unit/web/http/transport"

MUTANTS = (
    Mutant(
        "a write goes before those that wait",
        WRITER,
        "        if room > 0 and self._queue.is_idle and ",
        "        if room > 0 and ",
        (f"{UNIT}/test_writer.py",),
    ),
    Mutant(
        "what the socket did not take is written again",
        WRITER,
        "            self.put(memoryview(data)[written:])\n",
        "            self.put(data)\n",
        (f"{UNIT}/test_writer.py",),
    ),
    Mutant(
        "a fast reader's writer never gives way",
        WRITER,
        "            self._at_once += written\n",
        "            self._at_once = 0\n",
        (f"{UNIT}/test_writer.py",),
    ),
)
