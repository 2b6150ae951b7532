"""A checkpoint as a folder in Hugging Face layout: config.json, safetensors files, tokenizer.json.

- `checkpoint`: `FolderCheckpoint`
- `shards`: the weight files' headers, and the fingerprint
- `plain`: `PlainTensor`, numbers that are not quantised
"""
