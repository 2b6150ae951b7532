"""Tensors and text: everything synchronous that serves a model, below `actors` and `web`.

Only the executors and `ownership` know Trio.  The packages, each of which may use those before it:

- at the root: `errors`, `units`, `options`, `ownership`, `log_text`, `host_memory`, `processor`
- `store`: from a model's name to its files; `checkpoint`: what these say
- `text`: tokenizer, stop strings; `chat`: chat templates, tool calls; `grammar`: what an output must be; `kv`: the KV
  cache and its tiers; `sampling`: logits to tokens
- `prompt_rows`: what prompts give besides KV
- `step`: one device step and where it runs
- `single_rows`: attention of single rows; `cuda`, `mps`, `native`: kernels
- `nn`: the model's layers and weights; `parallel`: a model on several ranks, whose processes are `ranks`
- `loading`: from a folder to what serves it
- `testing`, `selftest`: faults and stand-ins; the checks of `cede doctor --self-test`

`embedded` has the small model that comes with cede, and its draft model, which uses the same tokenizer.
"""
