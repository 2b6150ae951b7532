"""Programs that measure KV in the engine, and memory: `python -m bench.engine.kv.arena`, `bench.engine.kv.lengths`."""
