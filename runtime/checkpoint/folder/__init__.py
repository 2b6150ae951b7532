"""A checkpoint as a folder in Hugging Face layout: config.json, safetensors files, tokenizer.json.

- `checkpoint`: `FolderCheckpoint`, and `read_tokenizer_file`
- `shards`: the weight files' headers, and the fingerprint
- `plain`: `PlainTensor`, a tensor of such a file
- `quantized`: which layout of packed matrices a folder has; `packed`: `PackedMatrix`; `mlx`, `gptq` (with AWQ),
  `compressed_tensors`, `microscaling`, `fp8`, `mxfp4`: the layouts
- `mlx_models`: `as_published`, which takes back what mlx-lm changes when it converts a model
- `experts`: `canonical_experts`, for what files stack or name otherwise
"""
