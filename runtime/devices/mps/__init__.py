"""Kernels for MPS alone: few rows of attention, and of recurrent layers, each in one launch for all sequences.

kernels.metal  those of attention, in Metal's language, which PyTorch compiles when a model is loaded
states.metal   those of recurrent layers, likewise
compiling.py   what is compiled, and whether it may be used
rows.py        the launches of attention
states.py      those of recurrent layers
"""
