"""The simulation's part with KV outside the slots: a device that moves KV, blocks that lie, tiers in virtual time.

Tests come in through `tests.fakes.kv_simulation`.  It rests on the rest of `tests.sim`.
"""
