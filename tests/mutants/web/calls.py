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
    Mutant(
        "a text that was held back is told with the usage of the stream's beginning",
        "web/generation/openai_format/answers/formatter.py",
        " and not self._options.running_usage:",
        ":",
        ("tests/unit/web/generation/openai_format/chat/test_answers.py",),
    ),
    Mutant(
        "a message has blocks that are blank",
        "web/apis/anthropic/answers.py",
        "if not text.strip():",
        "if not text:",
        ("tests/unit/web/apis/anthropic/test_answers.py",),
    ),
    Mutant(
        "fields that an API does not have are read unseen where another has them",
        "web/bodies/strict_model.py",
        "    return {name: getattr(model, name) for name in type(model).model_fields}\n",
        "    return dict(model)\n",
        ("tests/unit/web/generation/test_asked.py",),
    ),
)
