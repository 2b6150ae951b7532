"""The disk tier: blocks of KV as files, in one folder for each model, written by one thread.

For whoever opens a prefix cache, and for `cede kv`, which looks after the files without a server.

    tier          open_disk_tier, DiskTier, DiskTierStatistics
    write_queue   WriteQueue: what the writer has still to do
    writer        DiskWriter: the thread
    blocks        DiskBlocks: the files
    index         DiskIndex: which of them there are, as memory knows it; Losses: what has left it
    files         one file: its name, its bytes, its checks
    folder        the folder: its lock, its models, its names
"""
