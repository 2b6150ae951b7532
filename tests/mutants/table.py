"""All mutants, area by area."""

from __future__ import annotations

from tests.mutants import bursts, grammars, manager, observers, slots, steps
from tests.mutants.actors import planner, preemption, spare_time
from tests.mutants.cluster import control, knowledge, requests
from tests.mutants.kv import blocks, pages, published, rings, states
from tests.mutants.model import deterministic, draws, ranks, recorded, single, stacks, turns, weights
from tests.mutants.web import calls, command_line, connections, detached, ends, memory, stored, transport

MUTANTS = (
    *manager.MUTANTS,
    *planner.MUTANTS,
    *preemption.MUTANTS,
    *slots.MUTANTS,
    *blocks.MUTANTS,
    *pages.MUTANTS,
    *rings.MUTANTS,
    *states.MUTANTS,
    *published.MUTANTS,
    *steps.MUTANTS,
    *bursts.MUTANTS,
    *deterministic.MUTANTS,
    *draws.MUTANTS,
    *weights.MUTANTS,
    *recorded.MUTANTS,
    *single.MUTANTS,
    *stacks.MUTANTS,
    *ranks.MUTANTS,
    *grammars.MUTANTS,
    *observers.MUTANTS,
    *detached.MUTANTS,
    *transport.MUTANTS,
    *ends.MUTANTS,
    *connections.MUTANTS,
    *memory.MUTANTS,
    *control.MUTANTS,
    *requests.MUTANTS,
    *knowledge.MUTANTS,
    *spare_time.MUTANTS,
    *stored.MUTANTS,
    *calls.MUTANTS,
    *turns.MUTANTS,
    *command_line.MUTANTS,
)
