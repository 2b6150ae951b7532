"""Kernels of cede's own for CPUs: decoder layers of few rows in one call, 4-bit weights in full for many rows, draws.

- `source/`: C++, without PyTorch's headers or Python's, for AVX2, AVX-512, AMX and NEON; pip builds it where there is a
  compiler
- `structures`: what is handed to it
- `kernels`: `Kernels`, the library that was loaded, and its threads

PyTorch's operations are the reference, and do all that these do not: products of many rows, other formats, other
processors.
"""
