"""Torch's switches of libraries that minitorch does not use: each may be set, and changes nothing.

Results here are the same in every run with the same seed, and float32 is never computed in less.
"""

from . import cuda, cudnn, mps

__all__ = ["cuda", "cudnn", "mps"]
