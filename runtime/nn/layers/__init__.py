"""The parts of a decoder layer.  Each constructs itself from a `WeightSource`, so it says once what it reads.

- `decoder_layer`: `DecoderLayer`; `batch`: `Batch`, what a layer is given
- `self_attention`: `SelfAttention`; `query_key_norm`: `read_query_key_norm`; `rope`: `rope_tables`, `apply_rope`
- `latent_attention`: `LatentAttention`; in the place of attention: `short_conv`, `gated_delta`, `mamba2`;
  `recurrent`: rows with the states that they go on from
- `attention`: `attend`, `step_mask`; `tiles`: `choose_tile_kernel`
- `mlp`: `GatedMlp`; `experts`: `MixtureOfExperts`, `router`: `Router`
- `gemma`: what Gemma's layers have besides
- `norm`: `read_norm`
- `native_layer`: a layer by the kernels for CPUs, `native_mixers`: attention in it, `native_recurrent`: or recurrence;
  `recorded`: layers as CUDA graphs
"""
