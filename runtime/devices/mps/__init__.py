"""Kernels for MPS alone: attention of all rows of a step in one launch.

kernels.metal  the kernels, in Metal's language, which PyTorch compiles when a model is loaded
rows.py        their launches, and whether they may be used
"""
