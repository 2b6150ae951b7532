"""Unit tests of `runtime.nn.layers.gemma`."""
