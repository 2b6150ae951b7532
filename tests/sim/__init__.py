"""Whole engines in virtual time: scenarios, clients, a device, and what must hold; each run is fixed by one integer.

`python -m tests.sim` plays scenarios; tests come in through `tests.fakes.simulation`.  Everything that is checked is
learnt from the engine's events (`actors.core.observer`), from its public state, and from the stand-in model.
"""
