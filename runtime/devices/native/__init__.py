"""Kernels of cede's own for CPUs: decoder layers of few rows in one call, 4-bit weights in full for many rows, draws.

- `source/`: C++, without PyTorch's headers or Python's, for AVX2, AVX-512, AMX and NEON; pip builds it where there is a
  compiler
- `structures`: what is handed to it
- `kernels`: `Kernels`, the library that was loaded, and its threads

A step of thirty thin layers is some thousand operations in PyTorch, and its products of few rows take up to four times
as long.  Here a layer is one call (`runtime.nn.layers.native_layer`), and so are several that are alike
(`runtime.nn.native_stack`).  Weights and KV are read where PyTorch keeps them.  A step with a chunk of a prompt is
split: who decodes stays with the kernels.

PyTorch's operations are the reference, and do all that these do not: products of many rows, other formats, other
processors.  There is no `torch.compile`: Inductor's product of one row is a fifth faster than oneDNN's (bench/LOG.md),
but it is compiled with each layer's weights as constants, in a layout that prompts cannot use, and needs a compiler
where it serves.
"""
