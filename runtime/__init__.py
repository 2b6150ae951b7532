"""Tensors and text: everything synchronous that serves a model, below `actors` and `web`.

Only the executors and `ownership` know Trio.  The rooms, each of which may use those before it:

- at the root: `errors`, `units`, `options`, `ownership`, `log_text`, `host_memory`, `processor`
- `checkpoint`: what a model's folder says
- `text`: tokenizer, chat template, stop strings; `kv`: the KV cache and its tiers; `sampling`: logits to tokens
- `prompt_rows`: what prompts give besides KV
- `step`: one device step and where it runs
- `single_rows`: attention of single rows; `cuda`, `mps`, `native`: kernels
- `nn`: the model's layers and weights
- `loading`: from a folder to what serves it
- `testing`, `selftest`: faults and stand-ins; the checks of `cede doctor --self-test`

`embedded` has the small model that comes with cede, and its draft model, which uses the same tokenizer.
"""
