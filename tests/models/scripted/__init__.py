"""Models that say what they are told: a Llama whose weights are a text, so that a real engine says it to a real parser.

- `writing`: the weights, the tokenizer and the template of such a model
- `serving`: the application over an engine with it
"""
