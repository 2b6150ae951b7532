"""Kernels for CUDA alone: attention of all rows of a step in one launch, and layers as CUDA graphs.

kernels.py     the kernels, in Triton, which PyTorch brings where it has CUDA
rows.py        their launches
capture.py     operations recorded once, to be run again by one call
"""
