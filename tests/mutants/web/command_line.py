"""Bad edits of how a server starts, and of how the command line tells what is wrong."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "a server accepts connections before its model is loaded",
        "web/http/listeners.py",
        "            sockets.append(bound)\n",
        "            bound.listen()\n            sockets.append(bound)\n",
        ("tests/unit/web/http/test_listeners.py",),
    ),
    Mutant(
        "an error is as long as what it quotes",
        "web/commands/main.py",
        "shortened(whole).split",
        "whole.split",
        ("tests/unit/web/commands/test_main.py",),
    ),
)
