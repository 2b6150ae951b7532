"""The mathematics of recurrent layers, as functions of tensors: a state comes in, and a new one goes out.

A given state is never written.  All is computed in float32, whatever the rows are; a prompt's by matrix products over
chunks of its rows, and one row of each of several sequences at once.

- `convolution`: `causal_conv`, of each channel by itself over few rows
- `delta_rule`: `gated_delta_rule`, `gated_delta_step`, and `l2norm`
- `ssm`: `ssm_scan`, `ssm_step`: Mamba 2
- `chunks`: what the last two share
"""
