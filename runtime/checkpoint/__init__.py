"""Checkpoints: a model's files, read without torch where that is possible.

A model is a folder in the layout of Hugging Face checkpoints, or a GGUF file.  It rests on `runtime.common` and
`runtime.errors` alone; every other package of `runtime` may use it.  To add a model family is to add an entry to
`families.table`, and one to `gguf.architectures` for its GGUF files.

- `open`: `open_checkpoint`, and `Checkpoint`, what it returns; `folder` and `gguf` have one kind each
- `config`: `ModelConfig`, `parse_config`; `families`, `layer_config`, `recurrent_config`, `mtp_layout`, `json_fields`
  are its parts; `latent_rows`: the order of latent attention's rows
- `sampling_defaults`: `SamplingDefaults`, of generation_config.json
- `stored`: `StoredTensor`, a tensor in whatever format it is stored
- `fingerprint`: `hash_files`, of a model's files
- `unreadable`: what is said of a file that is empty, cut short or not fetched
"""
