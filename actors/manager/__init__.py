"""The slot manager: one task that owns slots, queue, holds, receipts and the index of cached KV.

For the engine, which runs it, and for requests, which have its `handle`; rests on `actors.core`, `actors.kv` and
`runtime.step`.  `slot_manager.SlotManager.turn` is the loop; each other module is one of its parts.

- `admission`: the queue · `dispatch`: what each command does · `handle`: what requests have of the manager
- `device`: the executor, and the task that serves the queue while it runs · `recovery`: a device that is lost
- `step_runner`: the step on the device, as `actors.scheduling` has planned it · `settlement`: what its results change
- `block_news`: who is told which KV blocks there are · `receipt_log`: what each cancel cost · `statistics`: a frozen
  snapshot
"""
