"""Preemption without loss: who is less important leaves its slot, and goes on where it was.

For the slot manager, whose task alone calls it; rests on `actors.core` and `actors.kv`.

- `victims`: who may be parked, and who of them is, as functions of what is there
- `shelves`: `Shelves`, where KV of theirs stays without being copied, while there is room
- `parking`: `Parking`, those who are parked, and what is kept of them
"""
