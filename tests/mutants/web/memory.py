"""Bad edits of what a server keeps and of how long it keeps others waiting: figures that a user would see late."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "the caches of products' shapes have the libraries' bounds",
        "web/process/torch_settings.py",
        "        **CACHES,\n",
        "",
        ("tests/unit/web/commands/test_main.py",),
    ),
    Mutant(
        "all vectors of a batch are normalised in one go",
        "web/generation/embeddings.py",
        "backlog, normalise=asked.normalise)\n",
        "backlog, normalise=False)\n        vectors = [*map(normalised, vectors)] if asked.normalise else vectors\n",
        ("tests/unit/web/generation/test_embeddings.py",),
    ),
    Mutant(
        "short parts of a long value are encoded without a pause",
        "web/bodies/json_encoding.py",
        "FRAGMENT = 64\n",
        "FRAGMENT = 0\n",
        ("tests/unit/web/bodies/test_responses_turns.py",),
    ),
    Mutant(
        "compiled grammars are bounded by their number alone",
        "runtime/grammar/compiler.py",
        "MAX_KEPT_CHARACTERS = 2**20\n",
        "MAX_KEPT_CHARACTERS = 2**30\n",
        ("tests/unit/runtime/grammar/test_compiler.py",),
    ),
)
