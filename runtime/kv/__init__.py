"""Keys and values: in the slots, in host memory, and in `runtime.kv.disk`.

For `runtime` and `actors`; rests on `runtime.checkpoint` and `runtime.common.ownership`.  Blocks of KV are named by the
tokens that they stand for.

    blocks        Block, BlockKey, BLOCK_TOKENS, root_key, block_key, block_keys
    pages         PageTable, PagePool: where a sequence lies, and who reads which page
    token_chain   TokenChain: tokens that know the names of their blocks
    cache         KVCache: the slots' tensors; kv_agrees, kv_bytes, kv_bytes_per_token
    states        StateBuffers: what recurrent layers keep of sequences; state_bytes
    rings         Rings: where layers with a window keep less, and what follows for lengths
    ram_tier      RamTier: blocks in host memory
    index         BlockIndex: which blocks there are, and which goes first
    held          HeldBlocks: which blocks are held anywhere, for a listener
    disk          the disk tier
"""
