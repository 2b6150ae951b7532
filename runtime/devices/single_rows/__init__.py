"""Steps of few rows: whichever sequences these are of, in one launch.

What the kernels for CUDA (`runtime.devices.cuda`) and for MPS (`runtime.devices.mps`) share.

rows.py        where the rows of a step lie, how a layer scores, and what kernels do; which steps are of single rows,
               and what is sent for them
states.py      which states the rows of recurrent layers go on from, and what kernels do
check.py       kernels beside PyTorch's operations, in a few small cases
"""
