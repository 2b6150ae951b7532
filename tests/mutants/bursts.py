"""Bad edits of bursts: steps that follow one another on the device, and are told of while it goes on."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "a burst goes on though a command has come",
        "runtime/step/burst.py",
        " or not burst.may_go_on():",
        ":",
    ),
    Mutant(
        "a burst goes on behind a token that ends an output",
        "runtime/step/burst.py",
        " or result.tokens[-1].token_id in segment.sample.end_ids",
        "",
    ),
    Mutant(
        "a burst goes on with a generation that was cancelled in it",
        "runtime/step/burst.py",
        "    return not result.tokens or segment.mark.at is not None or ",
        "    return not result.tokens or ",
        ("tests/unit/runtime/step/test_burst.py",),
    ),
    Mutant(
        "each token of a burst is drawn as the first one",
        "runtime/step/burst.py",
        "sample=segment.sample.after(drawn))",
        "sample=segment.sample)",
        ("tests/unit/runtime/step/test_burst.py",),
    ),
    Mutant(
        "a cancel in a burst takes what was drawn before it",
        "runtime/step/burst.py",
        "        tokens=before.tokens + last.tokens,\n",
        "        computed=last.computed,\n        tokens=before.tokens + last.tokens,\n",
        ("tests/unit/runtime/step/test_burst.py",),
    ),
    Mutant(
        "rows that a burst has read are not counted as computed",
        "runtime/step/burst.py",
        "        rows=before.rows + last.rows,\n",
        "",
    ),
    Mutant(
        "tokens that a burst has read are not committed",
        "actors/manager/settlement.py",
        "            *(token.token_id for token in result.tokens[:-1]),\n",
        "            *(token.token_id for token in result.tokens[:-1] if drafted),\n",
    ),
    Mutant(
        "a burst goes beyond the room of a slot",
        "actors/manager/step_planner.py",
        "        return min(self.work.most_tokens, self.record.slot.capacity - self.segment.start)\n",
        "        return self.work.most_tokens\n",
    ),
    Mutant(
        "a burst draws without the masks of a grammar",
        "actors/generating/output.py",
        "        return 1 if self.masks() else self.room\n",
        "        return self.room\n",
    ),
    Mutant(
        "rings are not told how far a burst may write",
        "actors/manager/device.py",
        "segment.end + further)",
        "segment.end)",
    ),
    Mutant(
        "rings are not told of the steps that have begun meanwhile",
        "runtime/step/burst.py",
        "        return min(2 * self.steps, self.most)\n",
        "        return self.steps\n",
        ("tests/scenarios/bursts/test_bursts.py",),
    ),
    Mutant(
        "what goes on has all the room that its burst had at first",
        "runtime/step/job.py",
        "        left = self.burst.most - steps\n",
        "        left = self.burst.most\n",
    ),
    Mutant(
        "layers of what goes on are told of as those of the first steps",
        "runtime/step/job.py",
        "before=self.before + steps)",
        "before=self.before)",
        ("tests/unit/runtime/step/test_burst_following.py",),
    ),
    Mutant(
        "commands are applied though the device has begun the next step",
        "actors/manager/slot_manager.py",
        "            step = self._settlement.settle(step, await self._steps.run(step, burst))\n",
        "            step = self._settlement.settle(step, await self._steps.run(step, burst))\n"
        "            self._drain()\n",
        ("tests/scenarios/bursts/test_bursts.py",),
    ),
    Mutant(
        "slots are granted though the device has begun the next step",
        "actors/manager/slot_manager.py",
        "            step = self._settlement.settle(step, await self._steps.run(step, burst))\n",
        "            step = self._settlement.settle(step, await self._steps.run(step, burst))\n"
        "            self._drain()\n            self._admit()\n",
        ("tests/scenarios/bursts/test_bursts.py",),
    ),
    Mutant(
        "what a step read behind the end of an output is kept",
        "actors/generating/decode.py",
        "    if chunk.following is not None or hold.length > whole:\n",
        "    if hold.length > whole:\n",
        ("tests/scenarios/bursts/test_bursts.py",),
    ),
    Mutant(
        "a token that is in a step already is submitted once more",
        "actors/generating/decode.py",
        "    if following is not None:\n",
        "    if following is not None and following.is_set:\n",
    ),
    Mutant(
        "drafts that did not pay are never tried again",
        "actors/generating/drafting.py",
        "        if most <= 0:\n            self.rest = TRY_PAUSE\n",
        "        if most <= 0:\n            self.rest = output.room\n",
        ("tests/scenarios/bursts/test_bursts.py",),
    ),
    Mutant(
        "a burst goes on for as long as its outputs",
        "actors/manager/bursts.py",
        "        most = min(int(MOST_SECONDS / seconds), *(planned.most_tokens for planned in step))\n",
        "        most = min(planned.most_tokens for planned in step)\n",
        ("tests/scenarios/bursts/test_bursts.py",),
    ),
    Mutant(
        "a burst that hung is waited for to the end of what it was at",
        "runtime/step/device_thread.py",
        "        while self._call is not None:  # what hangs",
        "        if self._call is not None:  # what hangs",
        ("tests/unit/runtime/step/test_executor_lost_thread.py",),
    ),
    Mutant(
        "what a step gave is lost with the thread that ends in the next",
        "runtime/step/device_thread.py",
        "            self.tell()\n            trio_token",
        "            trio_token",
        ("tests/unit/runtime/step/test_burst_following.py",),
    ),
    Mutant(
        "a burst keeps waiting who has rows that had no room in its step",
        "actors/manager/bursts.py",
        "        if sum(record.pending is not None for record in holds) != len(step):\n            return None\n",
        "",
        ("tests/scenarios/bursts/test_bursts.py",),
    ),
)
