"""`Methods`: the operators as methods and operator signs, shared by every kind of value."""

import builtins
import functools
from collections.abc import Callable
from inspect import isfunction
from typing import Any, Self, TypeVar

from ..arrays.library import as_dtype
from ..arrays.shapes import numel
from ..op import Kind, Value
from . import random
from .elementwise import activation, binary, casting, logic, pointwise
from .elementwise import unary as elementwise
from .elementwise.rows import ROWS
from .networks import softmax as softmaxes
from .products import linalg, linear_systems
from .reducing import ordering, reduction, scans, statistics
from .shaping import assigning, gathering, indexing, joining, matrices, movement, scattering
from .unknown_sizes import put_off

R = TypeVar("R")


def _reflect(name: str) -> Callable[[Kind, object], Kind]:
    """Return the method for a value on the right of a sign: `2 - x`."""

    def method(self: Kind, other: object) -> Kind:
        return self._apply(ROWS[name], (other, self))

    return method


def _as(dtype: str) -> Callable[..., Any]:
    """Return the method that converts to a dtype."""

    def method(self: Kind, memory_format: object = None) -> Kind:
        return casting.cast_to(self, dtype)

    method.__doc__ = f"Return this value as {dtype}. The layout stays, whatever `memory_format` is."
    return method


def with_numpys_words(function: Callable[..., R]) -> Callable[..., R]:
    """Return a function that takes NumPy's `axis` and `keepdims`, and `input`, as torch's do.

    Where it computes with a size that is not known, the value may put it off until it is.
    """

    @functools.wraps(function)
    def call(*args: object, **options: object) -> R:
        if options:
            for theirs, ours in (("axis", "dim"), ("keepdims", "keepdim")):
                if theirs in options and ours not in options:
                    options[ours] = options.pop(theirs)
            if "input" in options:
                args = (options.pop("input"), *args)
        try:
            return function(*args, **options)
        except TypeError as error:
            return put_off(function, args, options, error)  # type: ignore[return-value]

    return call


class Methods(Value):
    """A value with torch's methods. A kind of value inherits these and adds its own."""

    __slots__ = ()
    __array_ufunc__: Any = None  # NumPy leaves `array * value` to us
    __hash__ = object.__hash__

    # signs
    __add__ = __radd__ = binary.add
    __sub__ = binary.sub
    __mul__ = __rmul__ = binary.mul
    __truediv__ = binary.true_divide
    __floordiv__ = binary.floor_divide
    __mod__ = binary.remainder
    __pow__ = pointwise.pow
    __matmul__ = linalg.matmul
    __neg__ = elementwise.neg
    __pos__ = elementwise.positive
    __abs__ = elementwise.abs
    __invert__ = logic.bitwise_not
    __and__ = __rand__ = logic.bitwise_and
    __or__ = __ror__ = logic.bitwise_or
    __xor__ = __rxor__ = logic.bitwise_xor
    __lshift__ = logic.bitwise_left_shift
    __rshift__ = logic.bitwise_right_shift
    __lt__ = logic.lt
    __le__ = logic.le
    __gt__ = logic.gt
    __ge__ = logic.ge
    __getitem__ = indexing.getitem

    def __eq__(self, other: object) -> Any:  # elementwise, as in torch; nothing equals None
        return NotImplemented if other is None or isinstance(other, str) else logic.eq(self, other)

    def __ne__(self, other: object) -> Any:
        return NotImplemented if other is None or isinstance(other, str) else logic.ne(self, other)

    __rsub__ = _reflect("sub")
    __rtruediv__ = _reflect("div")
    __rfloordiv__ = _reflect("floor_divide")
    __rmod__ = _reflect("remainder")
    __rpow__ = _reflect("pow")
    __rlshift__ = _reflect("bitwise_left_shift")
    __rrshift__ = _reflect("bitwise_right_shift")

    def __rmatmul__(self, other: Self) -> Self:
        return linalg.matmul(other, self)

    # torch's methods: each is the function of that name, whose first argument is the value
    reshape = movement.reshape
    view = movement.reshape
    flatten = movement.flatten
    permute = movement.permute
    transpose = movement.transpose
    t = movement.t
    expand = movement.expand
    expand_as = movement.expand_as
    squeeze = movement.squeeze
    unsqueeze = movement.unsqueeze
    flip = movement.flip
    roll = joining.roll
    movedim = movement.movedim
    unflatten = movement.unflatten
    repeat = movement.repeat
    tile = movement.tile
    ravel = movement.ravel
    contiguous = movement.contiguous
    broadcast_to = movement.expand
    split = joining.split
    chunk = joining.chunk
    tensor_split = joining.tensor_split
    unbind = joining.unbind
    tril = matrices.tril
    triu = matrices.triu
    diag = matrices.diag
    diagonal = matrices.diagonal
    trace = matrices.trace
    unfold = matrices.unfold
    repeat_interleave = matrices.repeat_interleave
    gather = gathering.gather
    take_along_dim = gathering.take_along_dim
    scatter = gathering.scatter
    scatter_add = gathering.scatter_add
    scatter_reduce = scattering.scatter_reduce
    index_put = assigning.index_put
    index_select = gathering.index_select
    index_add = gathering.index_add
    index_fill = gathering.index_fill
    take = gathering.take
    masked_fill = gathering.masked_fill
    masked_select = gathering.masked_select
    narrow = indexing.narrow
    select = indexing.select
    nonzero = indexing.nonzero
    neg = elementwise.neg
    abs = elementwise.abs
    sign = elementwise.sign
    square = pointwise.square
    relu = elementwise.relu
    reciprocal = elementwise.reciprocal
    sqrt = elementwise.sqrt
    rsqrt = elementwise.rsqrt
    exp = elementwise.exp
    exp2 = elementwise.exp2
    expm1 = elementwise.expm1
    log = elementwise.log
    log2 = elementwise.log2
    log10 = elementwise.log10
    log1p = elementwise.log1p
    sigmoid = elementwise.sigmoid
    sin = elementwise.sin
    cos = elementwise.cos
    tan = elementwise.tan
    asin = elementwise.asin
    acos = elementwise.acos
    atan = elementwise.atan
    sinh = elementwise.sinh
    cosh = elementwise.cosh
    tanh = elementwise.tanh
    atanh = elementwise.atanh
    erf = elementwise.erf
    floor = elementwise.floor
    ceil = elementwise.ceil
    trunc = elementwise.trunc
    frac = elementwise.frac
    mul = binary.mul
    floor_divide = binary.floor_divide
    remainder = binary.remainder
    fmod = binary.fmod
    maximum = binary.maximum
    minimum = binary.minimum
    atan2 = pointwise.atan2
    xlogy = binary.xlogy
    logaddexp = activation.logaddexp
    add = pointwise.add
    sub = pointwise.sub
    div = pointwise.div
    pow = pointwise.pow
    clamp = pointwise.clamp
    clamp_min = pointwise.clamp_min
    clamp_max = pointwise.clamp_max
    lerp = pointwise.lerp
    addcmul = pointwise.addcmul
    addcdiv = pointwise.addcdiv
    round = pointwise.round
    nan_to_num = pointwise.nan_to_num
    isclose = pointwise.isclose
    allclose = pointwise.allclose
    equal = pointwise.equal
    eq = logic.eq
    ne = logic.ne
    lt = logic.lt
    le = logic.le
    gt = logic.gt
    ge = logic.ge
    logical_and = logic.logical_and
    logical_or = logic.logical_or
    logical_xor = logic.logical_xor
    logical_not = logic.logical_not
    isnan = logic.isnan
    isinf = logic.isinf
    isfinite = logic.isfinite
    bitwise_and = logic.bitwise_and
    bitwise_or = logic.bitwise_or
    bitwise_xor = logic.bitwise_xor
    bitwise_not = logic.bitwise_not
    bitwise_left_shift = logic.bitwise_left_shift
    bitwise_right_shift = logic.bitwise_right_shift
    sum = reduction.sum
    mean = reduction.mean
    amax = reduction.amax
    amin = reduction.amin
    logsumexp = reduction.logsumexp
    nansum = reduction.nansum
    any = reduction.any
    all = reduction.all
    prod = statistics.prod
    var = statistics.var
    std = statistics.std
    norm = statistics.norm
    count_nonzero = statistics.count_nonzero
    max = ordering.max
    min = ordering.min
    argmax = ordering.argmax
    argmin = ordering.argmin
    sort = ordering.sort
    argsort = ordering.argsort
    multinomial = random.multinomial
    topk = ordering.topk
    median = ordering.median
    cumsum = scans.cumsum
    cumprod = scans.cumprod
    cummax = ordering.cummax
    cummin = ordering.cummin
    diff = ordering.diff
    matmul = linalg.matmul
    mm = linalg.mm
    bmm = linalg.bmm
    mv = linalg.mv
    dot = linalg.dot
    outer = linalg.outer
    addmm = linalg.addmm
    baddbmm = linalg.baddbmm
    det = linear_systems.det
    slogdet = linear_systems.slogdet
    softmax = softmaxes.softmax
    log_softmax = softmaxes.log_softmax
    T = property(movement.t_reversed)
    mT = property(linalg.mT)
    absolute, negative = elementwise.abs, elementwise.neg
    multiply, divide, subtract = binary.mul, pointwise.div, pointwise.sub
    less, less_equal, greater, greater_equal = logic.lt, logic.le, logic.gt, logic.ge
    not_equal = logic.ne
    clip, swapaxes, moveaxis = pointwise.clamp, movement.transpose, movement.movedim
    clone, type_as = casting.clone, casting.type_as
    view_as, reshape_as = movement.reshape_as, movement.reshape_as

    def where(self, condition: Self, other: object) -> Self:
        """Return this value where the condition holds, else `other`."""
        return binary.where(condition, self, other)

    float, double, half = _as("float32"), _as("float64"), _as("float16")
    bfloat16, long, int, bool = _as("bfloat16"), _as("int64"), _as("int32"), _as("bool")
    byte, char, short = _as("uint8"), _as("int8"), _as("int16")

    @property
    def ndim(self) -> builtins.int:
        """The number of axes."""
        return len(self.shape)

    def dim(self) -> builtins.int:
        """Return the number of axes."""
        return len(self.shape)

    def numel(self) -> Any:
        """Return the number of elements; None when a size is not known."""
        return numel(tuple(self.shape))

    nelement = numel

    def is_floating_point(self) -> builtins.bool:
        """Tell whether the dtype is a floating one."""
        return as_dtype(self.dtype).kind == "f"


_WITH_AXES = "sum mean prod max min argmax argmin amax amin std var all any median logsumexp nansum"
_WITH_AXES += " cumsum cumprod cummax cummin softmax log_softmax sort argsort topk count_nonzero"
_WITH_AXES += " unbind chunk squeeze unsqueeze index_select gather tril triu diag trace roll repeat"
_WITH_AXES += " tile expand expand_as split tensor_split diff repeat_interleave narrow unfold"
_WITH_AXES += " take_along_dim"
for _name in _WITH_AXES.split():
    setattr(Methods, _name, with_numpys_words(getattr(Methods, _name)))

_METHODS_ALONE = frozenset(
    ["contiguous", "expand_as", "repeat", "reshape_as", "type_as", "unfold", "view", "view_as"]
)
FUNCTIONS = {
    name: value
    for name, value in vars(Methods).items()
    if isfunction(value) and value.__module__ != __name__
    if not name.startswith("_") and name not in _METHODS_ALONE
}
"""The operators that torch has as functions as well as methods, by name."""
