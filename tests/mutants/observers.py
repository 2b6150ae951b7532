"""Bad edits of what observers are told, and of what one that raises costs."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "a release is told before the slot is free",
        "actors/manager/dispatch.py",
        "        self._table.release(slot, held_until)\n",
        "        self._observers.tell(self._observers.released, Released(*hold.ticket.key, slot.id, reason, 0, 0))\n"
        "        self._table.release(slot, held_until)\n",
    ),
    Mutant(
        "a cancel is not told",
        "actors/core/hold.py",
        "            if (observers := self.manager.observers).cancelled:\n",
        "            if (observers := self.manager.observers).cancelled and self.index:\n",
    ),
    Mutant(
        "accepted drafts are not among the rows that are told",
        "actors/manager/settlement.py",
        "        self._tell_committed(planned, len(rows), accepted)\n",
        "        self._tell_committed(planned, len(rows) - accepted, accepted)\n",
    ),
    Mutant(
        "a grant is told with another slot",
        "actors/manager/admission.py",
        "Granted(*ticket.key, slot.id, len(slot.tokens), record.leaders)",
        "Granted(*ticket.key, max(0, slot.id - 1), len(slot.tokens), record.leaders)",
    ),
    Mutant(
        "an observer that raises fails the request",
        "actors/core/observer.py",
        "            except Exception:\n                observer",
        "            except ArithmeticError as error:\n                raise error\n"
        "            except Exception:\n                observer",
        ("tests/unit/actors/core/test_observer.py",),
    ),
    Mutant(
        "an observer that raises goes on being told",
        "actors/core/observer.py",
        "                self._remove(observer)\n\n    def _remove",
        "\n    def _remove",
        ("tests/unit/actors/core/test_observer.py",),
    ),
)
