"""Tensors and text: everything synchronous that serves a model, below `actors` and `web`.

Only the executors and `common.ownership` know Trio.  The packages, each of which may use those before it:

- `errors`: all that cede raises on purpose; `common`: options, units, and other small things
- `store`: from a model's name to its files; `checkpoint`: what these say
- `text`: tokenizer, stop strings; `chat`: chat templates, tool calls; `grammar`: what an output must be; `kv`: the KV
  cache and its tiers; `sampling`: logits to tokens
- `step`: one device step and where it runs
- `devices`: kernels, and a model on several ranks
- `nn`: the model's layers and weights
- `loading`: from a folder to what serves it
- `testing`, `selftest`: faults and stand-ins; the checks of `cede doctor --self-test`

`embedded` has the small model that comes with cede, and its draft model, which uses the same tokenizer.
"""
