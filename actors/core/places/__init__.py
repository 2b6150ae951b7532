"""The slots' records, and where their sequences lie in the pool of KV.

For `actors.core.slots`, whose parts these are; nobody else makes or changes them.

- `record`: `SlotRecord`, of one slot · `in_view`: `SlotsInView`, what everybody may look at · `pages`: `SlotPages`,
  where the sequences lie
- `states`: `States`, of recurrent layers, at some lengths of the sequences · `state_pool`: `StatePool`, who names which
  of their buffers
"""
