"""Programs that measure KV in the engine: `python -m bench.engine.kv.sharing`."""
