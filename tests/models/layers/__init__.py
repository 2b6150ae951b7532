"""Small models by PyTorch and by the kernels, and attention written out: what layers are compared with."""
