"""Products with weight matrices, in the formats that devices compute with fastest, and embeddings.

- `formats`: `choose_formats`; `quantization`: `Quantization`, without torch
- `linear`: `Linear`, `WeightMatrix`, the formats that keep every bit
- `int8`: `DynamicInt8`, `WeightInt8`; `int4`: `CpuInt4`, `WeightInt4`, `Int4Format`
- `arithmetic`: rounding weights and rotating rows
- `embedding`: `Embedding`, in full and in few bits
"""
