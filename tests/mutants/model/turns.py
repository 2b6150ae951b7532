"""Bad edits of what brings to the model what a client sent."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "a late system turn stays one where the template drops it",
        "runtime/chat/turns.py",
        "            kept = traits.system if leading else traits.order.late_system\n",
        "            kept = traits.system\n",
        ("tests/unit/runtime/chat/test_turns.py",),
    ),
    Mutant(
        "a call of a tool in a namespace has the name that the model sees",
        "web/apis/responses/output/envelope.py",
        "        if name not in self.apart:\n",
        "        if name:\n",
        ("tests/unit/web/apis/responses/output/test_events.py",),
    ),
    Mutant(
        "what a compressed body becomes is not counted",
        "web/http/body_budget.py",
        "                elif not self.reservation.grow(len(piece)):\n",
        "                elif not self.reservation.grow(0):\n",
        ("tests/unit/web/http/test_body_budget.py",),
    ),
)
