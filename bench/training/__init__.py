"""The embedded model: corpus, tokenizer, training, export. Run it with ``python -m bench.training``."""
