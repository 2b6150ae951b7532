"""Steps on devices that are not here: kernels that MPS has, and what the host reads.

`steps` are those of small models, with a recorder of their operations; `on_mps` runs them on a fake MPS.
"""
