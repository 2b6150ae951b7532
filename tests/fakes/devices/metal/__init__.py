"""Metal's kernels without a Mac: the source that ships, compiled as C++, and run thread by thread.

metal_stdlib   what of Metal's language and library the source uses, in C++; a fiber for each thread of a group
source.py      what a source says of its kernels: their parameters, and what may be handed to these
compiled.py    stands in for `torch.mps.compile_shader` on the CPU
"""
