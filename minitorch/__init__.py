"""Tensors, reverse-mode autodiff, and dataflow graphs: PyTorch's names and meanings."""

from importlib import import_module
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING, Any

from numpy import dtype as dtype

from . import arrays as arrays
from . import autograd as autograd
from . import cpu as cpu
from . import cuda as cuda
from . import errors as errors
from . import linalg as linalg
from .arrays import Device as Device
from .arrays import bfloat16 as bfloat16
from .arrays import device as device
from .arrays import finfo as finfo
from .arrays import float16 as float16
from .arrays import float32 as float32
from .arrays import float64 as float64
from .arrays import get_default_dtype as get_default_dtype
from .arrays import iinfo as iinfo
from .arrays import int8 as int8
from .arrays import int16 as int16
from .arrays import int32 as int32
from .arrays import int64 as int64
from .arrays import promote_types as promote_types
from .arrays import set_default_dtype as set_default_dtype
from .arrays import uint8 as uint8
from .autograd.functional import hessian as hessian
from .autograd.functional import jacobian as jacobian
from .backward import grad as grad
from .creation import arange as arange
from .creation import bernoulli as bernoulli
from .creation import empty as empty
from .creation import empty_like as empty_like
from .creation import eye as eye
from .creation import from_numpy as from_numpy
from .creation import full as full
from .creation import full_like as full_like
from .creation import linspace as linspace
from .creation import normal as normal
from .creation import ones as ones
from .creation import ones_like as ones_like
from .creation import rand as rand
from .creation import rand_like as rand_like
from .creation import randint as randint
from .creation import randn as randn
from .creation import randn_like as randn_like
from .creation import randperm as randperm
from .creation import zeros as zeros
from .creation import zeros_like as zeros_like
from .exports import public_names
from .generator import Generator as Generator
from .generator import default_generator as default_generator
from .generator import manual_seed as manual_seed
from .gradcheck import gradcheck as gradcheck
from .gradcheck import gradgradcheck as gradgradcheck
from .op import Op as Op
from .op import Value as Value
from .op import apply as apply
from .ops.binary import where as where
from .ops.einsum import einsum as einsum
from .ops.joining import cat as cat
from .ops.joining import hstack as hstack
from .ops.joining import stack as stack
from .ops.joining import vstack as vstack
from .ops.linalg import tensordot as tensordot
from .ops.loss import cdist as cdist
from .ops.loss import cosine_similarity as cosine_similarity
from .ops.matrices import meshgrid as meshgrid
from .ops.methods import FUNCTIONS
from .ops.movement import broadcast_tensors as broadcast_tensors
from .recording import enable_grad as enable_grad
from .recording import is_grad_enabled as is_grad_enabled
from .recording import no_grad as no_grad
from .recording import set_grad_enabled as set_grad_enabled
from .tensor import Tensor as Tensor
from .tensor import as_tensor as as_tensor
from .tensor import is_floating_point as is_floating_point
from .tensor import is_tensor as is_tensor
from .tensor import numel as numel
from .tensor import result_type as result_type
from .tensor import tensor as tensor
from .tensor.exchange import TYPE_NAMES
from .tensor.exchange import unique as unique
from .threads import get_num_threads as get_num_threads
from .threads import set_num_threads as set_num_threads

# Dtypes by Python's and C's names
bool = arrays.bool_
half = float16
float = float32
double = float64
short = int16
int = int32
long = int64

globals().update(FUNCTIONS)  # sum, exp, matmul, ...: what is a method of tensors, too

concat = concatenate = cat
row_stack = vstack
inference_mode = no_grad

Size: type[tuple[object, ...]] = tuple
"""What a shape is."""

if TYPE_CHECKING:
    from . import accelerator as accelerator
    from . import amp as amp
    from . import backends as backends
    from . import compile as compile
    from . import data as data
    from . import distributions as distributions
    from . import nn as nn
    from . import optim as optim
    from . import testing as testing
    from . import utils as utils
    from .serialize import load as load
    from .serialize import save as save
    from .show import show as show

# Handed on when first asked for, so that `import minitorch` stays quick: modules; name -> module.
_MODULES = {"accelerator", "amp", "backends", "compile", "data", "distributions"}
_MODULES |= {"nn", "optim", "testing", "utils"}
_LATER = {
    **dict.fromkeys(TYPE_NAMES.values(), "tensor_types"),
    "autocast": "amp",
    "load": "serialize",
    "save": "serialize",
    "set_float32_matmul_precision": "backends",
    "show": "show",
    "use_deterministic_algorithms": "backends",
}


# What torch has of complex numbers
_COMPLEX = {
    "angle",
    "cdouble",
    "cfloat",
    "chalf",
    "complex",
    "complex128",
    "complex32",
    "complex64",
}
_COMPLEX |= {"conj", "fft", "imag", "istft", "polar", "real", "stft", "view_as_complex"}
_COMPLEX |= {"view_as_real"}


def __getattr__(name: str) -> Any:
    """Return one of the names that are handed on late."""
    if name in _COMPLEX:
        raise AttributeError(f"minitorch.{name}: {arrays.NO_COMPLEX}")
    if name not in _MODULES and name not in _LATER:
        raise AttributeError(f"module 'minitorch' has no attribute {name!r}")
    found: Any = import_module(f"minitorch.{_LATER.get(name, name)}")
    value = getattr(found, name) if name in _LATER else found
    globals()[name] = value
    return value


__all__ = public_names(
    globals(), ["arrays", "autograd", "cpu", "cuda", "errors", "linalg", *_MODULES, *_LATER]
)
