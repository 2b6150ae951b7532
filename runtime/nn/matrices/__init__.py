"""Products with weight matrices, in the formats that devices compute with fastest, and embeddings.

- `formats`: `choose_formats`, `KeptCodes`; `quantization`: `Quantization`, without torch
- `linear`: `Linear`, `WeightMatrix`, the formats that keep every bit
- `int8`: `DynamicInt8`, `WeightInt8`; `int4`: `CpuInt4`, `WeightInt4`
- `byte_products`: `ByteInt8`, `ByteCodes`, whose products are the kernels'; `sixteen_bits`: `SixteenBits`
- `native`: matrices as the kernels read them; `panels`: how oneDNN has packed one; `native_product`: products by them
- `arithmetic`: rounding weights and rotating rows
- `embedding`: `Embedding`, in full and in few bits
"""
