"""Diagnostics of a running process beside its engine: who held the event loop.

Rests on Trio alone, and on nothing else of `actors`; the server switches it on (`--watch-loop`).

    loop_watch   LoopWatch, watch_loop: measure the steps of all tasks
    loop_holds   LoopHold, LoopStatistics, Cause: what was found, as plain data
"""
