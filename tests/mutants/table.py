"""All mutants, area by area."""

from __future__ import annotations

from tests.mutants import kv, manager, slots, steps

MUTANTS = (*manager.MUTANTS, *slots.MUTANTS, *kv.MUTANTS, *steps.MUTANTS)
