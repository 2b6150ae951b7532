"""KV that is restored, shared, displaced, audited and invalidated; `sources` and `cursed` bring it about."""
