"""Tensors, reverse-mode autodiff, and dataflow graphs."""

from .arrays import (
    bool_ as bool,
)
from .arrays import (
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from .autodiff import enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from .creation import arange, eye, from_numpy, full, linspace, ones, zeros
from .op import Op
from .ops.binary import mul, where
from .ops.elementwise import abs, exp, log, neg, relu, sigmoid, sqrt, tanh
from .ops.linalg import matmul
from .ops.movement import permute, reshape, transpose
from .ops.pointwise import add, clamp, div, pow, sub
from .ops.reduction import amax, amin, logsumexp, mean, sum
from .tensor import Tensor, tensor

__all__ = [
    "Op",
    "Tensor",
    "abs",
    "add",
    "amax",
    "amin",
    "arange",
    "bool",
    "clamp",
    "div",
    "enable_grad",
    "exp",
    "eye",
    "float16",
    "float32",
    "float64",
    "from_numpy",
    "full",
    "grad",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_grad_enabled",
    "linspace",
    "log",
    "logsumexp",
    "matmul",
    "mean",
    "mul",
    "neg",
    "no_grad",
    "ones",
    "permute",
    "pow",
    "relu",
    "reshape",
    "set_grad_enabled",
    "sigmoid",
    "sqrt",
    "sub",
    "sum",
    "tanh",
    "tensor",
    "transpose",
    "uint8",
    "where",
    "zeros",
]
