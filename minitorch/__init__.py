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
from .derivatives import hessian as hessian
from .derivatives import jacobian as jacobian
from .exchange import unique as unique
from .exports import public_names
from .generator import Generator as Generator
from .generator import default_generator as default_generator
from .generator import manual_seed as manual_seed
from .gradcheck import gradcheck as gradcheck
from .gradcheck import gradgradcheck as gradgradcheck
from .op import Op as Op
from .op import Value as Value
from .op import apply as apply
from .ops.binary import atan2 as atan2
from .ops.binary import floor_divide as floor_divide
from .ops.binary import fmod as fmod
from .ops.binary import logaddexp as logaddexp
from .ops.binary import maximum as maximum
from .ops.binary import minimum as minimum
from .ops.binary import mul as mul
from .ops.binary import remainder as remainder
from .ops.binary import true_divide as true_divide
from .ops.binary import where as where
from .ops.binary import xlogy as xlogy
from .ops.casting import clone as clone
from .ops.einsum import einsum as einsum
from .ops.elementwise import abs as abs
from .ops.elementwise import acos as acos
from .ops.elementwise import acosh as acosh
from .ops.elementwise import asin as asin
from .ops.elementwise import asinh as asinh
from .ops.elementwise import atan as atan
from .ops.elementwise import atanh as atanh
from .ops.elementwise import ceil as ceil
from .ops.elementwise import cos as cos
from .ops.elementwise import cosh as cosh
from .ops.elementwise import erf as erf
from .ops.elementwise import exp as exp
from .ops.elementwise import exp2 as exp2
from .ops.elementwise import expm1 as expm1
from .ops.elementwise import floor as floor
from .ops.elementwise import log as log
from .ops.elementwise import log1p as log1p
from .ops.elementwise import log2 as log2
from .ops.elementwise import log10 as log10
from .ops.elementwise import neg as neg
from .ops.elementwise import positive as positive
from .ops.elementwise import reciprocal as reciprocal
from .ops.elementwise import relu as relu
from .ops.elementwise import rsqrt as rsqrt
from .ops.elementwise import sgn as sgn
from .ops.elementwise import sigmoid as sigmoid
from .ops.elementwise import sign as sign
from .ops.elementwise import sin as sin
from .ops.elementwise import sinh as sinh
from .ops.elementwise import sqrt as sqrt
from .ops.elementwise import tan as tan
from .ops.elementwise import tanh as tanh
from .ops.elementwise import trunc as trunc
from .ops.gathering import gather as gather
from .ops.gathering import index_add as index_add
from .ops.gathering import index_put as index_put
from .ops.gathering import index_select as index_select
from .ops.gathering import masked_fill as masked_fill
from .ops.gathering import masked_select as masked_select
from .ops.gathering import scatter as scatter
from .ops.gathering import scatter_add as scatter_add
from .ops.gathering import take_along_dim as take_along_dim
from .ops.indexing import narrow as narrow
from .ops.indexing import nonzero as nonzero
from .ops.indexing import select as select
from .ops.joining import cat as cat
from .ops.joining import chunk as chunk
from .ops.joining import hstack as hstack
from .ops.joining import split as split
from .ops.joining import stack as stack
from .ops.joining import unbind as unbind
from .ops.joining import vstack as vstack
from .ops.linalg import addmm as addmm
from .ops.linalg import baddbmm as baddbmm
from .ops.linalg import bmm as bmm
from .ops.linalg import dot as dot
from .ops.linalg import matmul as matmul
from .ops.linalg import mm as mm
from .ops.linalg import mv as mv
from .ops.linalg import outer as outer
from .ops.logic import bitwise_and as bitwise_and
from .ops.logic import bitwise_left_shift as bitwise_left_shift
from .ops.logic import bitwise_not as bitwise_not
from .ops.logic import bitwise_or as bitwise_or
from .ops.logic import bitwise_right_shift as bitwise_right_shift
from .ops.logic import bitwise_xor as bitwise_xor
from .ops.logic import eq as eq
from .ops.logic import ge as ge
from .ops.logic import greater as greater
from .ops.logic import greater_equal as greater_equal
from .ops.logic import gt as gt
from .ops.logic import isfinite as isfinite
from .ops.logic import isinf as isinf
from .ops.logic import isnan as isnan
from .ops.logic import le as le
from .ops.logic import less as less
from .ops.logic import less_equal as less_equal
from .ops.logic import logical_and as logical_and
from .ops.logic import logical_not as logical_not
from .ops.logic import logical_or as logical_or
from .ops.logic import logical_xor as logical_xor
from .ops.logic import lt as lt
from .ops.logic import ne as ne
from .ops.logic import not_equal as not_equal
from .ops.matrices import diag as diag
from .ops.matrices import diag_embed as diag_embed
from .ops.matrices import diagonal as diagonal
from .ops.matrices import meshgrid as meshgrid
from .ops.matrices import repeat_interleave as repeat_interleave
from .ops.matrices import trace as trace
from .ops.matrices import tril as tril
from .ops.matrices import triu as triu
from .ops.movement import broadcast_tensors as broadcast_tensors
from .ops.movement import broadcast_to as broadcast_to
from .ops.movement import expand as expand
from .ops.movement import flatten as flatten
from .ops.movement import movedim as movedim
from .ops.movement import permute as permute
from .ops.movement import ravel as ravel
from .ops.movement import reshape as reshape
from .ops.movement import squeeze as squeeze
from .ops.movement import t as t
from .ops.movement import transpose as transpose
from .ops.movement import unflatten as unflatten
from .ops.movement import unsqueeze as unsqueeze
from .ops.normalization import log_softmax as log_softmax
from .ops.normalization import softmax as softmax
from .ops.ordering import argmax as argmax
from .ops.ordering import argmin as argmin
from .ops.ordering import argsort as argsort
from .ops.ordering import cumprod as cumprod
from .ops.ordering import cumsum as cumsum
from .ops.ordering import kthvalue as kthvalue
from .ops.ordering import max as max
from .ops.ordering import median as median
from .ops.ordering import min as min
from .ops.ordering import sort as sort
from .ops.ordering import topk as topk
from .ops.pointwise import add as add
from .ops.pointwise import addcdiv as addcdiv
from .ops.pointwise import addcmul as addcmul
from .ops.pointwise import allclose as allclose
from .ops.pointwise import clamp as clamp
from .ops.pointwise import clamp_max as clamp_max
from .ops.pointwise import clamp_min as clamp_min
from .ops.pointwise import div as div
from .ops.pointwise import equal as equal
from .ops.pointwise import isclose as isclose
from .ops.pointwise import lerp as lerp
from .ops.pointwise import logit as logit
from .ops.pointwise import nan_to_num as nan_to_num
from .ops.pointwise import pow as pow
from .ops.pointwise import round as round
from .ops.pointwise import square as square
from .ops.pointwise import sub as sub
from .ops.random import multinomial as multinomial
from .ops.reduction import all as all
from .ops.reduction import amax as amax
from .ops.reduction import amin as amin
from .ops.reduction import any as any
from .ops.reduction import logsumexp as logsumexp
from .ops.reduction import mean as mean
from .ops.reduction import sum as sum
from .ops.reordering import flip as flip
from .ops.reordering import roll as roll
from .ops.reordering import tile as tile
from .ops.statistics import count_nonzero as count_nonzero
from .ops.statistics import norm as norm
from .ops.statistics import prod as prod
from .ops.statistics import std as std
from .ops.statistics import var as var
from .recording import enable_grad as enable_grad
from .recording import is_grad_enabled as is_grad_enabled
from .recording import no_grad as no_grad
from .recording import set_grad_enabled as set_grad_enabled
from .tensor import Tensor as Tensor
from .tensor import as_tensor as as_tensor
from .tensor import is_floating_point as is_floating_point
from .tensor import is_tensor as is_tensor
from .tensor import numel as numel
from .tensor import tensor as tensor
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

# What torch has under a second name
arctan2 = atan2
multiply = mul
absolute = abs
arccos = acos
arcsin = asin
arctan = atan
negative = neg
concat = cat
concatenate = cat
row_stack = vstack
ger = outer
moveaxis = movedim
swapaxes = transpose
swapdims = transpose
clip = clamp
divide = div
subtract = sub
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
    from .amp import autocast as autocast
    from .backends import set_float32_matmul_precision as set_float32_matmul_precision
    from .backends import use_deterministic_algorithms as use_deterministic_algorithms
    from .serialize import load as load
    from .serialize import save as save
    from .show import show as show
    from .tensor_types import BFloat16Tensor as BFloat16Tensor
    from .tensor_types import BoolTensor as BoolTensor
    from .tensor_types import ByteTensor as ByteTensor
    from .tensor_types import CharTensor as CharTensor
    from .tensor_types import DoubleTensor as DoubleTensor
    from .tensor_types import FloatTensor as FloatTensor
    from .tensor_types import HalfTensor as HalfTensor
    from .tensor_types import IntTensor as IntTensor
    from .tensor_types import LongTensor as LongTensor
    from .tensor_types import ShortTensor as ShortTensor

# Handed on when first asked for, so that `import minitorch` stays quick: name -> module, attribute.
_LATER = {
    "BoolTensor": ("minitorch.tensor_types", "BoolTensor"),
    "ByteTensor": ("minitorch.tensor_types", "ByteTensor"),
    "CharTensor": ("minitorch.tensor_types", "CharTensor"),
    "DoubleTensor": ("minitorch.tensor_types", "DoubleTensor"),
    "BFloat16Tensor": ("minitorch.tensor_types", "BFloat16Tensor"),
    "FloatTensor": ("minitorch.tensor_types", "FloatTensor"),
    "HalfTensor": ("minitorch.tensor_types", "HalfTensor"),
    "IntTensor": ("minitorch.tensor_types", "IntTensor"),
    "LongTensor": ("minitorch.tensor_types", "LongTensor"),
    "ShortTensor": ("minitorch.tensor_types", "ShortTensor"),
    "accelerator": ("minitorch.accelerator", ""),
    "amp": ("minitorch.amp", ""),
    "autocast": ("minitorch.amp", "autocast"),
    "backends": ("minitorch.backends", ""),
    "compile": ("minitorch.compile", ""),
    "data": ("minitorch.data", ""),
    "distributions": ("minitorch.distributions", ""),
    "load": ("minitorch.serialize", "load"),
    "nn": ("minitorch.nn", ""),
    "optim": ("minitorch.optim", ""),
    "save": ("minitorch.serialize", "save"),
    "set_float32_matmul_precision": ("minitorch.backends", "set_float32_matmul_precision"),
    "show": ("minitorch.show", "show"),
    "testing": ("minitorch.testing", ""),
    "use_deterministic_algorithms": ("minitorch.backends", "use_deterministic_algorithms"),
    "utils": ("minitorch.utils", ""),
}


def __getattr__(name: str) -> Any:
    """Return one of the names that are handed on late."""
    if name not in _LATER:
        raise AttributeError(f"module 'minitorch' has no attribute {name!r}")
    module, attribute = _LATER[name]
    found = import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


__all__ = public_names(
    globals(), ["arrays", "autograd", "cpu", "cuda", "errors", "linalg", *_LATER]
)
