"""What a tensor is asked of its kind; and torch's old names for a tensor of a dtype:

LongTensor([1, 2])          a tensor of int64
FloatTensor(2, 3)           zeros of that shape
isinstance(x, LongTensor)   whether the dtype of x is int64
x.type(LongTensor), x.type("torch.LongTensor")
"""

from minitorch.arrays import promotion
from minitorch.arrays.library import DType, DTypeLike, Scalar, as_dtype
from minitorch.arrays.shapes import INTEGERS
from minitorch.tensor.conversions import TYPE_NAMES
from minitorch.tensor.tensor import Tensor, tensor


class TensorType:
    """A dtype, as something to call and to ask `isinstance`."""

    def __init__(self, name: str, dtype: DTypeLike) -> None:
        self.__name__ = name
        self.dtype: DType = as_dtype(dtype)

    def __call__(self, *data: object) -> Tensor:
        """Return a tensor of this dtype: of `data`, or zeros where sizes are given."""
        if len(data) == 1 and not isinstance(data[0], INTEGERS):
            return tensor(data[0], dtype=self.dtype)
        made: Tensor = Tensor(*data).to(self.dtype)
        return made

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype == self.dtype

    def __str__(self) -> str:
        return f"torch.{self.__name__}"


TYPES = {name: TensorType(name, dtype) for dtype, name in TYPE_NAMES.items()}


def __getattr__(name: str) -> TensorType:
    """Return the type of that name."""
    if name not in TYPES:
        raise AttributeError(f"module 'minitorch.tensor_types' has no attribute {name!r}")
    return TYPES[name]


def is_tensor(value: object) -> bool:
    """Tell whether `value` is a tensor."""
    return isinstance(value, Tensor)


def is_floating_point(value: Tensor) -> bool:
    """Tell whether `value` has a floating dtype."""
    return value.dtype.kind == "f"


def numel(value: Tensor) -> int:
    """Return the number of elements of `value`."""
    return int(value.numel())


def result_type(a: Tensor | Scalar, b: Tensor | Scalar) -> DType:
    """Return the dtype in which an operator computes with two tensors or Python numbers."""
    return promotion.result_type(
        [(v.dtype, v.ndim) if isinstance(v, Tensor) else v for v in (a, b)]
    )
