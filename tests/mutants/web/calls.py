"""Bad edits of how calls are read and shown."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "a tag ends a value whatever follows it",
        "runtime/chat/reading/tagged_values.py",
        '        if follows == "":\n',
        '        if follows == "nothing":\n',
    ),
    Mutant(
        "an answer with a broken call says that there are calls to carry out",
        "web/generation/answer_parts.py",
        " and begun and begun == ended:",
        " and begun:",
    ),
)
