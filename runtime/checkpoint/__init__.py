"""What a model's folder says, read without torch where that is possible.

The files are in the layout of Hugging Face checkpoints.  The room rests on the modules at the root of `runtime` alone;
every other room of `runtime` may use it.  To add a model family is to add an entry to `families.table`.

- `config`: `ModelConfig`, `parse_config`; `families`, `rope_config`, `mtp_layout`, `json_fields` are its parts
- `sampling_defaults`: `SamplingDefaults`, of generation_config.json
- `stored`: `StoredTensor`, a tensor in whatever format it is stored
- `shards`: `read_shards`, `check_shapes`, `fingerprint`; `tensor_reader`: `TensorReader`
- `fingerprint`: `hash_files`, of the models' files
"""
