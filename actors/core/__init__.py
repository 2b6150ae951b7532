"""Types that all actors share: the life of a generation, its slot, its figures, and what passes between tasks.

Everybody in `actors` may use it; it rests on `runtime` alone, and imports neither Trio's scheduling beyond events nor
torch.  What changes something here is the slot manager's to call (`runtime.common.ownership`).

- `generation`: `GenerationRequest` and the events of its answer · `life`: `State`, and the table of transitions
- `hold`: `Ticket`, then `Hold`, which an actor has · `holds`: the manager's side of a hold
- `slots`: `SlotTable` · `places`: its records · `slot_views`: what others see of a slot
- `account`: `Ledger`, then `Account` · `receipts`: `Receipt`
- `commands`: what actors ask of the manager · `mailbox`, `reply`: how it gets there, and the answer back
- `events`, `observer`: what the engine tells whoever listens
"""
