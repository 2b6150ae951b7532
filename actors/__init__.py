"""Requests as Trio tasks over one device: everything between HTTP and the tensors.

Rests on `runtime`, and knows nothing of `web`.  The front door is `engine.open_engine`; one task, the slot manager,
owns all that the device works on.  The packages, each of which may use those before it:

- `core`: what passes between tasks, and the records of slots and cancels; at the root `config`, the engine's options,
  and `control`, what a request says of its own fate
- `scheduling`: who goes first, and what the next step runs: decisions, and nothing else
- `kv`: KV outside the slots, and how it comes and goes; `generating`: from the queue to the last token; `groups`:
  requests that say something of one another; `preemption`: who leaves a slot for somebody more important
- `manager`: the slot manager, its queue, its steps, and what happens when the device is lost
- at the root: `request`, `engine`, and `statistics` of the whole; `prefills` and `spare_time`: prompts that are read
  for a client that has gone, or ahead of time
- `diagnostics`, `testing`, `selftest`: who held the event loop; faults and a clock that jumps; what the doctor checks
"""
