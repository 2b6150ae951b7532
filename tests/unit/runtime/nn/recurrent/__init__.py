"""Unit tests of `runtime.nn.recurrent`, module by module."""
