"""What works on the parameters of a whole model, under PyTorch's name for it."""

from minitorch.nn.clip import clip_grad_norm_, clip_grad_value_
from minitorch.nn.flat import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "parameters_to_vector",
    "vector_to_parameters",
]
