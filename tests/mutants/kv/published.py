"""Bad edits of what is told of blocks to whoever chooses a worker."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

HELD = ("tests/unit/runtime/kv/test_held.py",)

MUTANTS = (
    Mutant(
        "a block that leaves the memory is not taken back",
        "runtime/kv/ram_tier.py",
        "        if self._told is not None:\n            self._told.ram_lost(key)\n",
        "",
    ),
    Mutant(
        "a block that a slot has given up is not taken back",
        "actors/core/slots.py",
        "        record.tokens.truncate(length)\n        self._tell(record)\n",
        "        record.tokens.truncate(length)\n",
    ),
    Mutant(
        "blocks are told of when the prompt has been read, not when they are committed",
        "actors/core/slots.py",
        "        record.tokens.extend(token_ids)\n        record.trial.clear()\n        record.staged = 0\n"
        "        self._tell(record)\n",
        "        record.tokens.extend(token_ids)\n        record.trial.clear()\n        record.staged = 0\n"
        "        if len(token_ids) == 1:\n            self._tell(record)\n",
    ),
    Mutant(
        "what the disk has lost is not taken back",
        "actors/kv/tiers.py",
        "        self._told.disk_lost(set(lost) - self.disk.held(lost))\n",
        "",
    ),
    Mutant(
        "blocks of a request that wants no reuse are told of",
        "actors/manager/admission.py",
        "trio.current_time(), ticket.session, not ticket.reuse\n",
        "trio.current_time(), ticket.session, False\n",
    ),
    Mutant(
        "a block is told of without its parent",
        "runtime/kv/held.py",
        "        return held.parent == self._root if parent is None else parent.is_told\n",
        "        return True\n",
        HELD,
    ),
)
