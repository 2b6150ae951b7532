"""The kernels, built here with the compiler that there is, against PyTorch's operations."""
