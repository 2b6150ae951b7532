"""KV that is restored, shared, displaced, audited and struck; `sources` and `cursed` bring it about."""
