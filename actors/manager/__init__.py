"""The slot manager: one task that owns slots, queue, holds, receipts and the index of cached KV.

For the engine, which runs it, and for requests, which have its `handle`; rests on `actors.core`, `actors.kv` and
`runtime.step`.  `slot_manager.SlotManager.turn` is the loop; each other module is one of its parts.

- `admission`: the queue · `punctuality`: deadlines that cannot be met · `dispatch`: what each command does · `handle`:
  what requests have of the manager
- `device`: the executor, and the task that serves the queue while it runs · `recovery`: a device that is lost
- `step_planner`: the rows of the next step, with the arithmetic in `planner` · `bursts`: how far it may be followed ·
  `step_runner`: the step on the device · `settlement`: what its results change
- `block_news`: who is told which KV blocks there are · `statistics`: a frozen snapshot
"""
