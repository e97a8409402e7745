"""The product along one axis whose size only the run knows.

Where the size is known `statistics.prod` builds a tree of products, which is exact of any order.
"""

from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Array, Namespace
from ..op import Gradients, KeepsSpec, Op, Spec, apply
from .movement import insert_axes

if TYPE_CHECKING:
    from .methods import Methods


class Product(Op):
    """The product along an axis."""

    on_arrays = True
    reads_output = False
    name = "prod"

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the product, in the input's dtype."""
        (x,) = arrays
        return xp.prod(x, axis=self.dim, dtype=x.dtype)

    def infer(self, *specs: Spec) -> Spec:
        """Return the shape without the axis."""
        shape = specs[0].shape
        at = self.dim % len(shape)
        return Spec((*shape[:at], *shape[at + 1 :]), specs[0].dtype)

    def gradient(self, out_grad: "Methods", node: "Methods") -> Gradients:
        """Each element's share is the product of the others."""
        (x,) = node.inputs
        others = apply(Others(self.dim), x)
        return (insert_axes(out_grad, (self.dim % len(x.shape),)) * others,)


class Others(KeepsSpec, Product):
    """For each element the product of all others along the axis; right beside zeros too."""

    name = "prod_of_others"
    gradient = Op.gradient

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the products before, times those after."""
        (x,) = arrays
        if xp is not np:
            from ..arrays import to_numpy

            return xp.asarray(self.compute(np, to_numpy(x)), device=x.device)
        along = np.moveaxis(x, self.dim, 0)
        before, after = np.ones_like(along), np.ones_like(along)
        np.cumprod(along[:-1], axis=0, out=before[1:])
        np.cumprod(along[:0:-1], axis=0, out=after[-2::-1])
        return np.moveaxis(before * after, 0, self.dim)
