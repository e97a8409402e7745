"""Parameter: a tensor that a module finds and an optimizer updates."""

from minitorch.arrays.library import Array, DeviceLike, DTypeLike, copy_array, on_host
from minitorch.tensor.creation import zeros
from minitorch.tensor.tensor import Tensor, tensor


class Parameter(Tensor):
    """A leaf that requires a gradient, and counts as a parameter once it is a module's attribute.

    It shares the memory of the tensor that it is made of.
    """

    __slots__ = ()

    def __init__(self, data: object = None, requires_grad: bool = True) -> None:
        source = data if isinstance(data, Tensor) else tensor([] if data is None else data)
        super().__init__()
        self.array = source.detach()._own_array()
        self.requires_grad_(requires_grad)

    def __deepcopy__(self, memo: dict[int, object]) -> "Parameter":
        copy = Parameter(Tensor._new(copy_array(self.array)), self.requires_grad)
        memo[id(self)] = copy
        return copy

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (on_host(self.array), self.requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def empty_parameter(
    shape: tuple[int, ...], device: DeviceLike = None, dtype: DTypeLike = None
) -> Parameter:
    """Return a parameter of this shape whose numbers are still to be drawn; zeros until then."""
    return Parameter(zeros(shape, dtype=dtype, device=device))


def _restore(array: Array, requires_grad: bool) -> Parameter:
    return Parameter(Tensor._new(array), requires_grad)
