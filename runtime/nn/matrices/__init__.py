"""Products with weight matrices, in the formats that devices compute with fastest.

- `linear`: `Linear`, `WeightMatrix`, the formats that keep every bit
- `quantize`: `choose_formats`, those of 8 and 4 bits; `quantization`: `Quantization`, without torch
"""
