"""What data parallelism needs of a model, in words both torch and minitorch keep to.

`Module` and `Parameter` are structural: nothing is imported, nothing registered. A torch
`nn.Module` satisfies them, a `minitorch.nn.Module` too, and so does whatever a learner writes.

May import: NumPy, bucketing, buckets.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ddp_lab.data_parallel.bucketing import ParamSpec
from ddp_lab.data_parallel.buckets import Bucket, Slots

Array = npt.NDArray[Any]


class Parameter(Protocol):
    """A leaf that backward accumulates gradients into."""

    grad: Any
    requires_grad: bool

    def detach(self) -> Any:
        """Return the same values without history; `.numpy()` of it shares their memory."""

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> Any:
        """Call `hook(parameter)`, not with the gradient, whenever `.grad` has been added to."""


class Module(Protocol):
    """A model: callable, with named parameters."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the output."""

    def parameters(self) -> Iterable[Any]:
        """Yield the parameters in order of registration."""

    def named_parameters(self) -> Iterable[tuple[str, Any]]:
        """Yield (name, parameter) in order of registration."""


def values(tensor: Any) -> Array:
    """Return the array behind a tensor, sharing its memory."""
    array: Array = tensor.detach().numpy()
    return array


def fill(tensor: Any, array: Array) -> None:
    """Overwrite what a tensor holds, in its own memory.

    Raises:
        ValueError: the tensor hands out a read-only array.
    """
    target = values(tensor)
    if not target.flags.writeable:
        raise ValueError(
            f"fill: a {type(tensor).__name__} cannot be written to: got a read-only array, "
            "expected the tensor's own memory. Make it from a copy."
        )
    target[...] = array.reshape(target.shape)


def replace_grad(param: Any, array: Array) -> None:
    """Make `array` the gradient of a parameter.

    A tensor with a settable `array` (minitorch's) takes it as it is, so that the gradient lies
    where the array lies, in a bucket; into any other the numbers are copied. minitorch may share
    one array among gradients, or make it a read-only broadcast: so it is not written to.
    """
    array = array.reshape(param.shape)
    grad = param.detach()
    if hasattr(grad, "array"):
        grad.array = array
        param.grad = grad
    else:
        fill(param.grad, array)


def find_unused(outputs: Any, params: Sequence[Any]) -> list[int]:
    """Return the positions of the parameters that no path leads to from a module's outputs.

    Follows `tensor.inputs`, what a tensor was computed from (minitorch's word).
    """
    waiting = list(_tensors_in(outputs))
    seen = {id(tensor) for tensor in waiting}
    while waiting:
        for source in waiting.pop().inputs:
            if id(source) not in seen:
                seen.add(id(source))
                waiting.append(source)
    return [index for index, param in enumerate(params) if id(param) not in seen]


def _tensors_in(value: Any) -> Iterator[Any]:
    """Yield the tensors in lists, tuples and dicts of them."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _tensors_in(item)
    elif isinstance(value, dict):
        yield from _tensors_in(list(value.values()))
    elif hasattr(value, "inputs"):
        yield value


def trainable(module: Module) -> list[tuple[str, Any]]:
    """Return (name, parameter) of all parameters that need a gradient, each once.

    Raises:
        RuntimeError: there is none.
    """
    seen: set[int] = set()
    chosen = []
    for name, param in module.named_parameters():
        if param.requires_grad and id(param) not in seen:
            seen.add(id(param))
            chosen.append((name, param))
    if not chosen:
        raise RuntimeError(
            f"DistributedDataParallel is not needed when a module doesn't have any parameter that "
            f"requires a gradient: got {type(module).__name__}. Call the module itself."
        )
    return chosen


def array_specs(params: Iterable[tuple[str, Any]]) -> list[ParamSpec]:
    """Return what bucketing needs to know of (name, parameter) pairs."""
    arrays = [(name, values(param)) for name, param in params]
    return [ParamSpec(n, a.shape, a.itemsize, a.dtype.str) for n, a in arrays]


class ArraySlots(Slots):
    """The gradients of a model as NumPy arrays, for the reducer."""

    def __init__(self, params: Sequence[tuple[str, Any]]) -> None:
        self.params = [param for _, param in params]
        self.specs = array_specs(params)
        self.untouched: set[int] = set()  # parameters that no rank used in this iteration

    def dtype(self, index: int) -> npt.DTypeLike:
        return values(self.params[index]).dtype

    def views(self, flat: Array, indices: Sequence[int], starts: Sequence[int]) -> list[Array]:
        return [
            flat[start : start + self.specs[i].numel].reshape(self.specs[i].shape)
            for i, start in zip(indices, starts, strict=False)
        ]

    def gather(self, bucket: Bucket, scale: float) -> None:
        for index, view in zip(bucket.params, bucket.views, strict=True):
            grad = self.params[index].grad
            if grad is None:
                view[...] = 0
            else:
                np.multiply(values(grad), view.dtype.type(scale), out=view)

    def put(self, flat: Array, result: Any) -> None:
        if result is not flat:
            flat[...] = result.reshape(flat.shape)

    def deliver(self, bucket: Bucket) -> None:
        for index, view in zip(bucket.params, bucket.views, strict=True):
            if index not in self.untouched:
                replace_grad(self.params[index], view)

    def take_back(self, bucket: Bucket) -> bool:
        """Return True: every gradient stays a view of the bucket, none is lent."""
        return True

    def when_backward_ends(self, finish: Callable[[], None]) -> None:
        """Call `finish` at once: the last gradient is the end of backward."""
        finish()
