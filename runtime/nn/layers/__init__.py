"""The parts of a decoder layer.  Each constructs itself from a `WeightSource`, so it says once what it reads.

- `decoder_layer`: `DecoderLayer`; `batch`: `Batch`, what a layer is given
- `self_attention`: `SelfAttention`; `attention`: `attend`, `step_mask`
- `mlp`: `GatedMlp`; `experts`: `MixtureOfExperts`, `router`: `Router`
- `norm`: `RMSNorm`; `rope`: `rope_tables`, `apply_rope`
"""
