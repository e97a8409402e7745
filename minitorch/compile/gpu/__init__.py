"""Kernels for CUDA: the code of a product in blocks of threads, and the driver that runs it."""
