"""Bad edits of steps: cancels, drafts and the device thread."""

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
)
