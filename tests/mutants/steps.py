"""Bad edits of what a step does, and of what prompts give in it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "one stop flag for all (seed 2)",
        "runtime/step/step.py",
        "if segments[i].mark.at is None]",
        "if all(segment.mark.at is None for segment in segments)]",
    ),
    Mutant(
        "marks are read before the first layer only",
        "runtime/step/step.py",
        "        running.drop_cancelled()\n",
        "        if not index:\n            running.drop_cancelled()\n",
    ),
    Mutant(
        "the cancelled rows are dropped from the results, but not from the batch",
        "runtime/step/step.py",
        "            self._model.shrink(self.batch, kept)\n",
        "            pass\n",
    ),
    Mutant(
        "a fault while drafting costs the request",
        "actors/generating/drafting.py",
        "        except StepFailed as error:\n",
        "        except ZeroDivisionError as error:\n",
    ),
    Mutant(
        "a process that was stopped takes its device to hang",
        "runtime/step/device_thread.py",
        "HANG_CHECKS = 10 ",
        "HANG_CHECKS = 1 ",
        ("tests/unit/runtime/step/test_executor_lost_thread.py",),
    ),
    Mutant(
        "what is cached of a prompt is missing in its mean",
        "actors/core/generation.py",
        "        return self.cache_prompt and not self.outputs.needs_all_rows\n",
        "        return self.cache_prompt\n",
        ("tests/scenarios/prompts/test_prompt_outputs.py",),
    ),
    Mutant(
        "the sum of a reading that failed goes into the next one",
        "actors/generating/prefill.py",
        "    reading.begin()\n",
        "",
        ("tests/scenarios/prompts/test_prompt_outputs.py",),
    ),
    Mutant(
        "a prompt's first row is left out of its mean",
        "runtime/step/prompt_rows/pooled.py",
        "        self._rows += given.rows\n",
        "        self._rows += given.rows\n"
        "        if not self._sum:\n"
        "            self._sum = [0.0] * len(given.state)\n"
        "            return\n",
    ),
    Mutant(
        "the last state is that of any chunk's last row",
        "runtime/step/prompt_rows/wanted.py",
        "        is_last = rows == len(token_ids)\n",
        "        is_last = True\n",
    ),
    Mutant(
        "scores are those of the token before",
        "runtime/step/prompt_rows/wanted.py",
        "tuple(token_ids[1 : rows + 1])",
        "tuple(token_ids[:rows])",
    ),
    Mutant(
        "the first token of each chunk has no score",
        "runtime/step/prompt_rows/wanted.py",
        "tuple(token_ids[1 : rows + 1])",
        "tuple(token_ids[1:rows])",
    ),
    Mutant(
        "rows of the neighbour are pooled",
        "runtime/step/prompt_rows/gather.py",
        "            own = states[part.rows.start : part.rows.stop]\n",
        "            own = states[: len(part.rows)]\n",
        ("tests/unit/runtime/step/prompt_rows/test_gather.py",),
    ),
    Mutant(
        "the numbers of one that was cancelled are taken for the next one's",
        "runtime/step/prompt_rows/gather.py",
        "            if part.skipped:\n                continue\n",
        "",
        ("tests/unit/runtime/step/prompt_rows/test_gather.py",),
    ),
    Mutant(
        "rows are scored for who was cancelled",
        "runtime/step/prompt_rows/gather.py",
        "            if part.mark.at is not None:\n",
        "            if False:\n",
        ("tests/unit/runtime/step/prompt_rows/test_gather.py",),
    ),
)
