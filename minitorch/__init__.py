"""Tensors, reverse-mode autodiff, and dataflow graphs: PyTorch's names and meanings."""

from importlib import import_module
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING, Any

from numpy import dtype as dtype

from . import errors as errors
from .arrays.generator import Generator as Generator
from .arrays.generator import default_generator as default_generator
from .arrays.generator import get_rng_state as get_rng_state
from .arrays.generator import initial_seed as initial_seed
from .arrays.generator import manual_seed as manual_seed
from .arrays.generator import set_rng_state as set_rng_state
from .arrays.library import NO_COMPLEX
from .arrays.library import Device as Device
from .arrays.library import bfloat16 as bfloat16
from .arrays.library import bool_ as _bool
from .arrays.library import device as device
from .arrays.library import finfo as finfo
from .arrays.library import float16 as float16
from .arrays.library import float32 as float32
from .arrays.library import float64 as float64
from .arrays.library import get_default_dtype as get_default_dtype
from .arrays.library import iinfo as iinfo
from .arrays.library import int8 as int8
from .arrays.library import int16 as int16
from .arrays.library import int32 as int32
from .arrays.library import int64 as int64
from .arrays.library import set_default_dtype as set_default_dtype
from .arrays.library import uint8 as uint8
from .arrays.promotion import promote_types as promote_types
from .arrays.threads import get_num_threads as get_num_threads
from .arrays.threads import set_num_threads as set_num_threads
from .backward import grad as grad
from .exports import public_names
from .gradcheck import gradcheck as gradcheck
from .gradcheck import gradgradcheck as gradgradcheck
from .op import Op as Op
from .op import Value as Value
from .op import apply as apply
from .ops.elementwise.binary import where as where
from .ops.methods import FUNCTIONS
from .ops.methods import with_numpys_words as _with_numpys_words
from .ops.networks.loss import cdist as _cdist
from .ops.networks.loss import cosine_similarity as _cosine_similarity
from .ops.products.einsum import einsum as _einsum
from .ops.products.linalg import tensordot as _tensordot
from .ops.shaping.joining import cat as _cat
from .ops.shaping.joining import hstack as hstack
from .ops.shaping.joining import stack as _stack
from .ops.shaping.joining import vstack as vstack
from .ops.shaping.matrices import meshgrid as meshgrid
from .ops.shaping.movement import broadcast_tensors as broadcast_tensors
from .tensor.conversions import TYPE_NAMES
from .tensor.counting import bincount as bincount
from .tensor.counting import unique as unique
from .tensor.creation import arange as arange
from .tensor.creation import as_tensor as as_tensor
from .tensor.creation import bernoulli as bernoulli
from .tensor.creation import empty as empty
from .tensor.creation import empty_like as empty_like
from .tensor.creation import eye as eye
from .tensor.creation import from_dlpack as from_dlpack
from .tensor.creation import from_numpy as from_numpy
from .tensor.creation import full as full
from .tensor.creation import full_like as full_like
from .tensor.creation import linspace as linspace
from .tensor.creation import normal as normal
from .tensor.creation import ones as ones
from .tensor.creation import ones_like as ones_like
from .tensor.creation import rand as rand
from .tensor.creation import rand_like as rand_like
from .tensor.creation import randint as randint
from .tensor.creation import randn as randn
from .tensor.creation import randn_like as randn_like
from .tensor.creation import randperm as randperm
from .tensor.creation import zeros as zeros
from .tensor.creation import zeros_like as zeros_like
from .tensor.modes import enable_grad as enable_grad
from .tensor.modes import is_grad_enabled as is_grad_enabled
from .tensor.modes import no_grad as no_grad
from .tensor.modes import set_grad_enabled as set_grad_enabled
from .tensor.tensor import Tensor as Tensor
from .tensor.tensor import tensor as tensor
from .torch_names.tensor_types import is_floating_point as is_floating_point
from .torch_names.tensor_types import is_tensor as is_tensor
from .torch_names.tensor_types import numel as numel
from .torch_names.tensor_types import result_type as result_type

# Dtypes by Python's and C's names
bool = _bool
half = float16
float = float32
double = float64
short = int16
int = int32
long = int64

globals().update(FUNCTIONS)  # sum, exp, matmul, ...: what is a method of tensors, too

cat = concat = concatenate = _with_numpys_words(_cat)
stack = _with_numpys_words(_stack)
cdist, einsum = _with_numpys_words(_cdist), _with_numpys_words(_einsum)
cosine_similarity = _with_numpys_words(_cosine_similarity)
tensordot = _with_numpys_words(_tensordot)
row_stack = vstack
inference_mode = no_grad

Size: type[tuple[object, ...]] = tuple
"""What a shape is."""

__path__.append(f"{__path__[0]}/torch_names")  # what lies there is imported as `minitorch.cuda`

if TYPE_CHECKING:
    from . import compile as compile
    from . import data as data
    from . import distributions as distributions
    from . import nn as nn
    from . import optim as optim
    from .serialize import load as load
    from .serialize import save as save
    from .show import show as show
    from .torch_names import accelerator as accelerator
    from .torch_names import amp as amp
    from .torch_names import autograd as autograd
    from .torch_names import backends as backends
    from .torch_names import cpu as cpu
    from .torch_names import cuda as cuda
    from .torch_names import func as func
    from .torch_names import linalg as linalg
    from .torch_names import testing as testing
    from .torch_names import utils as utils
    from .torch_names.autograd.functional import hessian as hessian
    from .torch_names.autograd.functional import jacobian as jacobian

# Handed on when first asked for, so that `import minitorch` stays quick: modules; name -> module.
_MODULES = {"accelerator", "amp", "autograd", "backends", "compile", "cpu", "cuda", "data"}
_MODULES |= {"distributions", "func", "linalg", "nn", "optim", "testing", "utils"}
_LATER = {
    **dict.fromkeys(TYPE_NAMES.values(), "tensor_types"),
    "autocast": "amp",
    "hessian": "autograd.functional",
    "jacobian": "autograd.functional",
    "load": "serialize",
    "save": "serialize",
    "set_float32_matmul_precision": "backends",
    "show": "show",
    "use_deterministic_algorithms": "backends",
}


# What torch has of complex numbers
_COMPLEX = {"angle", "cdouble", "cfloat", "chalf", "complex", "complex128", "complex32"}
_COMPLEX |= {"complex64", "conj", "fft", "imag", "istft", "polar", "real", "stft"}
_COMPLEX |= {"view_as_complex", "view_as_real"}


def __getattr__(name: str) -> Any:
    """Return one of the names that are handed on late."""
    if name in _COMPLEX:
        raise AttributeError(f"minitorch.{name}: {NO_COMPLEX}")
    if name not in _MODULES and name not in _LATER:
        raise AttributeError(f"module 'minitorch' has no attribute {name!r}")
    module: Any = import_module(f"minitorch.{_LATER.get(name, name)}")
    value = getattr(module, name) if name in _LATER else module
    globals()[name] = value
    return value


__all__ = public_names(globals(), ["errors", *_MODULES, *_LATER])
__version__ = "0.1.0"
