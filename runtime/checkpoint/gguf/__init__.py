"""GGUF, the file format of llama.cpp: one file holds the hyperparameters, the tokenizer and the tensors of a model.

What the format says of itself is in the `gguf` library (constants, sizes of types, how blocks are expanded) and in
ggml's docs/gguf.md.  Files come from anywhere, so whatever is malformed in one is refused by name.

- `checkpoint`: `GgufCheckpoint`, and its tensors under canonical names
- `file`: `GgufFile`, of one file or of a split set; `header`: what one says; `metadata`: `Metadata`, values by type
- `architectures`: what keys and tensors' names mean, one `architecture.Architecture` each; `recurrent`: those with
  recurrent layers
- `settings`, `rope`: keys as those of config.json
- `deepseek`, `hybrid`, `gemma`, `laguna`: what DeepSeek's models, those with recurrent layers, Gemma's and Laguna's
  have of their own
- `tensors`: `GgufTensor`; `codes`: `group_codes`, of types of few bits
- `tokenizer`: `rebuild_tokenizer`; `vocabulary`, `pretokenizers` are its parts
"""
