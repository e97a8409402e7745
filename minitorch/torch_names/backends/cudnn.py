"""cuDNN's switches. The array library for CUDA has its own; these change nothing."""

from .mps import is_available as is_available

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True
