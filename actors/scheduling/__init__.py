"""Scheduling policy: who is next, who leaves a slot, and what the next step runs.

Decides, and changes nothing but what it remembers itself; no Trio, no mailbox, no tensors.  The slot manager says what
there is and what time it is, and does what was decided.  Rests on `actors.core`.

- `order`: who of those who wait is next · `shares`: fair shares among owners · `punctuality`: deadlines that cannot be
  met · `victims`: who is preempted
- `costs`: what a step takes · `planner`: the rows of prompts that it has time for · `step_planner`: all rows of the
  next one · `bursts`: how far it may be followed
"""
