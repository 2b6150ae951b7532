"""Devices beside PyTorch's operations: kernels for each kind, and several ranks that compute one model.

- `single_rows`: attention of single rows, whatever the device
- `cuda`, `mps`, `native`: kernels for GPUs of NVIDIA, for those of Apple, and for CPUs
- `parallel`: a model on several ranks, whose processes are `runtime.loading.ranks`
"""
