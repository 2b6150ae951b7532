"""Stand-ins that tests share: for an engine, its KV, blocks on disk, devices, a server of benchmarks.

`simulation` and `kv_simulation` put a whole engine under watch; they rest on `tests.sim`.
"""
