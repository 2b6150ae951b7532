"""What Gemma 3n and 4 have in their layers besides attention and MLP.

- `layer_inputs`: `LayerInputs`, what layers are given of a token besides the hidden states
- `altup`: several streams of hidden states, and a product beside attention
"""
