"""KV outside of the slots: what the slot manager keeps of it, and how it comes back.

For the slot manager and the engine; rests on `actors.core` and on the tiers of `runtime.kv`.  What changes anything is
called by the slot manager's task; a request's own task looks, waits for reads from disk, and sends commands.

    prefix_cache      PrefixCache, CacheStatistics, empty_cache: the parts below as one
    opening           open_prefix_cache, for a model's KV and for the time that a server runs
    config            TierOptions, CacheConfig
    tiers             Tiers: which blocks exist in memory and on disk, and how far a prompt's reach
    waiting_blocks    WaitingBlocks, SlotBlock: what is to be kept and is still in its slot
    write_behind      WriteBehind: what the disk has not taken yet
    invalidation      Invalidation: audits, and blocks that are dropped since their KV is wrong
    salvaged_tokens   SalvagedTokens: what cancelled generations have left, and who was served it
    disk_reader       DiskReader: reads from a disk that may hang
    transfers         KVTransfers: what is moved between two steps
    transfer_planner  TransferPlanner: those of it that a request's task has asked for
    planned_transfers  PlannedTransfers: such a one, with what is to be committed when it is done
    state_loads       StateLoads: loads of blocks with the state behind them, where layers are recurrent
    capacity          CapacityManager: pages of KV for the sequences that run
    restore           Restoration: a request's task looks for KV of its prompt, and asks for it
    prompts           chains: the names of a prompt's blocks
"""
