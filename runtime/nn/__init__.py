"""The model: weights, attention and the decoder, as tensors on one device.

`Transformer` implements `runtime.step.step.StepModel`; everything here happens on the device thread.  It rests on
`checkpoint`, `kv`, `step` and `sampling`, and is used by `runtime.loading`; the layers above see a model only through
an executor.

- `model`: `Transformer`, `Batch`, `HiddenStates`
- `ahead_model`: `AheadModel`, of which a step begins before the host has read the one before
- `rank_model`: the shares of a model that several ranks compute together
- `assistant`: `Assistant`, Gemma 4's drafters, which read the target's KV
- `mtp`: `MtpModule`, the target's multi-token-prediction module as a drafter; `draft_model`: `DraftModel`
- `weights`: `Weights`, `load_weights`, `random_weights`; `source`: `WeightSource`, where they come from, such as files
  (`stored_source`); `plan`: `planned_bytes`, what they will take
- `native_draws`: `NativeDraws`, tokens drawn by kernels; `native_stack`: `NativeStack`, layers by kernels in one call;
  `state_check`: `check_states`, kernels for few rows of recurrent layers beside PyTorch
- `layers`: what a decoder layer is made of; `recurrent`: the mathematics of recurrent ones
- `matrices`: products with weight matrices, and embeddings
"""
