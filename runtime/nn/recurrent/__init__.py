"""The mathematics of recurrent layers, as functions of tensors: a state comes in, and a new one goes out.

A given state is never written.  Computed in float32 whatever the rows are, by matrix products over chunks of rows.

- `convolution`: `causal_conv`, over the channels of the last few rows
- `delta_rule`: `gated_delta_rule`, linear attention that corrects what it remembers; `l2norm`
- `ssm`: `ssm_scan`, the state-space model of Mamba 2
- `chunks`: what the last two share
"""
