"""GGUF, the file format of llama.cpp: one file holds the hyperparameters, the tokenizer and the tensors of a model.

What the format says of itself is in the `gguf` library (constants, sizes of types, how blocks are expanded) and in
ggml's docs/gguf.md.  Files come from anywhere, so whatever is malformed in one is refused by name.

- `header`: `read_header`, of one file: metadata and where each tensor lies; `metadata`: `Metadata`, its typed values
- `file`: `GgufFile`, of one file or of a split set
- `tensors`: `GgufTensor`, a `StoredTensor`; `codes`: `group_codes`, of the types of four bits
"""
