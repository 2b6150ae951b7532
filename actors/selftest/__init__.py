"""Self-test of an engine on this device: whether cancels cost what they may.

For `web.selftest`; nothing that serves imports this package.  It aims at steps by the engine's events
(`actors.core.observer`), and rests on `runtime.selftest` for what a check has to say.

    cancel_checks   CancelChecks, Limits, judge
    step_aim        step_in: returns while a step of the wanted kind runs
"""
