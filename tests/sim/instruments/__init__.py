"""A server's instruments on a simulated engine, and what must hold of what they say: I16 to I20.

    attached         Instruments: all of those below, on one engine
    happened         Happened: what the instruments are held against, told by the engine's events
    feed             what is told to whoever watches, and to whoever is too slow for it
    spans            the traces
    recording        the recording, and `picture`, which reads one
    counters         the metrics
    salvaged_tokens  which tokens of cancelled generations are served again, found out token by token

They are the real ones, of `web`.  Each can be attached by itself, for a test of its module.
"""
