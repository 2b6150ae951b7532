"""Stand-ins that tests share: for an engine, a device and its KV, blocks on disk, MPS, a server of benchmarks.

`simulation` and `kv_simulation` put a whole engine under watch; they rest on `tests.sim`.
"""
