"""Preemption without loss: who is less important leaves its slot, and goes on where it was.

For the slot manager, whose task alone calls it; rests on `actors.core` and `actors.kv`, and on
`actors.scheduling.victims`, which says who.

- `retained_places`: `RetainedPlaces`, where KV of theirs stays without being copied, while there is room
- `preemption`: `Preemption`, those who are preempted, and what is kept of them
"""
