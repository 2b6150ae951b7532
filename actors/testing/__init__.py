"""Faults to order for a running engine, from outside of it.

For tests and `web.testing`; nothing that serves imports this package.  It learns what it needs from the engine's events
(`actors.core.observer`), and rests on `runtime.testing` for plans of faults.

    chaos        open_chaos, UnreliableExecutor, JumpingClock
    simulated    open_simulated: a stand-in model, open, to which a plan of faults happens
"""
