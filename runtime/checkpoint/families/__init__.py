"""Differences between architectures, as data.

- `table`: `FAMILIES`, an entry for each architecture, and `DEFAULTS`; `dense`, `sparse`, `gemma`, `mistral`, `hybrid`
  are parts of it
- `family`: `Family`, the form of an entry
- `layer_kinds`: rules that tell each layer's kind: recurrent, with or without a window, rotated or not
- `layer_shapes`: rules that tell each layer's sizes, where not all are alike
- `recurrent`: the recurrent layers, each kind by its keys
- `experts`: which experts take the place of each layer's MLP, or stand beside it
- `sizes`: the inner width of an MLP
- `norms`: `Norms`; `scales`: `Scales`, and the rules that read them
- `activations`: those of an MLP's gate
- `layout`: rules that give the files' tensors their canonical names and order
- `rotary`: the rotary position embeddings of config.json
- `latent`: DeepSeek's latent attention
"""
