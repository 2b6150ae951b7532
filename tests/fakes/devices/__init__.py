"""Stand-ins for accelerators: an MPS that computes on the CPU, and CUDA's graphs and kernels without a GPU."""
