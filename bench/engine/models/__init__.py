"""Models for the benchmarks of the engine: the embedded one, and shapes with random weights.

- `open_models`: `open_model`, on a device thread; `bare_model`: a model without a tokenizer
- `shapes`: the shapes, and `random_model`
- `random_gguf`: a hybrid as a file, which other servers take, too
"""
