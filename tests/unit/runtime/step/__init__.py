"""Unit tests of `runtime.step`, module by module.

- `executors`: executors to be tested, and a gate that holds their device thread in the middle of a step.
"""
