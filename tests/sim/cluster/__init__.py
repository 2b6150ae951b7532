"""Clusters in virtual time: front doors, workers, discovery, links that are cut; one integer fixes each run.

`python -m tests.sim.cluster` plays scenarios.  What is the real thing, and what stands in for Dynamo:

    virtual_loop  asyncio's side of all workers, in Trio's virtual time
    network       processes that die or freeze, and connections that keep their order           a model
    discovery     leases, and who is told of them                                               a model
    router        what a front door knows of KV, and which worker it prefers                    a model
    front_door    streams, silence, errors that move a request, replays                         a model
    worker        engine, slot manager, `Backend`, `Membership`, `BlockEvents`                  the real ones
    executor      steps on the stand-in model, that wait while the process is frozen
    clients       who asks, hangs up, and asks again
    scenario      what is drawn from a seed
    books         what each attempt of a request came to
    invariants    I27 to I34
    play          plays a scenario, and lists what did not hold
    growth/       thousands of workers that only send: what that comes to
"""
