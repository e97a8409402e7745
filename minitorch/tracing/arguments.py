"""The tensors in arguments and results, what else these hold, and the way back."""

from collections.abc import Hashable

import numpy as np

from minitorch.errors import ArgumentError
from minitorch.pytree import Rebuild, walk
from minitorch.tensor.creation import as_tensor
from minitorch.tensor.tensor import Tensor


def flatten(value: object, tensors: list[Tensor], operation: str) -> tuple[Hashable, Rebuild]:
    """Add the tensors in `value` to `tensors`; return what else it holds, and how to rebuild it.

    Raises:
        ArgumentError: it holds something that neither is a tensor nor can be compared.
    """
    rest: list[Hashable] = []

    def leaf(item: object) -> Rebuild:
        if isinstance(item, np.ndarray | np.generic):
            item = as_tensor(item)
        if isinstance(item, Tensor):
            tensors.append(item)
            rest.append(Tensor)
            return next
        try:
            hash(item)
        except TypeError:
            raise ArgumentError(
                f"{operation}: got an argument or result of type {type(item).__name__}, expected "
                "tensors, hashable values, or lists, tuples, dicts and dataclasses of them."
            ) from None
        rest.append((type(item), item.hex() if type(item) is float else item))  # 0.0 is not -0.0
        return lambda _: item

    rebuild = walk(value, leaf, kinds=rest)
    return tuple(rest), rebuild


def objects_in(static: Hashable) -> tuple[object, ...]:
    """Return what of `flatten`'s rest may have attributes that a function reads: modules, say."""
    pairs = static if isinstance(static, tuple) else ()
    items = [pair[1] for pair in pairs if isinstance(pair, tuple) and len(pair) == 2]
    return tuple(item for item in items if hasattr(item, "__dict__"))
