"""For tests of whatever runs steps: a model without tensors, and a device and a disk on which faults happen to order.

For tests, `actors.testing` and `web.testing`; nothing that serves imports this package.  It rests on the rest of
`runtime`.

    faults       FaultPlan and the faults in it, Chaos: a plan under way
    simulated    SimulatedModel, SimulatedDrafter: every output is a function of the exact tokens before it;
                 stand_in: one of them as a served model
    unreliable   UnreliableModel, UnreliableBlocks: these with a plan's faults; PlannedFault, ThreadKilled
"""
