"""Views while tracing: of what a traced value shows a part, and how an update of it gets there.

A graph has no memory that two values share. So a view keeps how it was made, and is made anew when
what it looks at has become another node; an update of it is one of what it looks at, with the new
elements put in.

Source: PyTorch's functionalization.
"""

from dataclasses import dataclass

from minitorch.arrays.shapes import Shape, is_known
from minitorch.errors import ShapeError
from minitorch.graph.core.node import Node
from minitorch.op import Op, apply
from minitorch.ops.shaping.assigning import assign_at
from minitorch.ops.shaping.broadcasting import ExpandTo
from minitorch.ops.shaping.indexing import Slice, split_index
from minitorch.ops.shaping.matrices import Unfold
from minitorch.ops.shaping.movement import Axes, Permute, Reshape, reshape_like
from minitorch.tensor.rebase import UpdateView
from minitorch.tensor.tensor import Tensor


@dataclass
class View:
    """How a traced value was made as a view.

    Attributes:
        of: what it shows elements of: a traced tensor, or one from outside.
        op, others: what makes it of that, with further inputs.
        node, updates: what `of` was in the graph when it was last computed, and how many updates
            the trace had seen by then.
        recorded: whether gradients flow through it.
        certain: it is a view however the elements lie in memory, which only a run can tell.
    """

    of: Tensor
    op: Op
    others: tuple[Tensor, ...]
    node: Node
    updates: int
    recorded: bool
    certain: bool = True

    def is_at(self, of: object, index: object) -> bool:
        """Tell whether this is the view of[index]."""
        op = self.op if self.of is of else None
        return isinstance(op, Slice) and op.index == split_index(index)[0]

    def put(self, whole: Tensor, part: Tensor) -> Tensor:
        """Return `whole` with `part` where the view is.

        Raises:
            ShapeError: an expanded view or overlapping windows, several elements of which are one.
        """
        op = self.op
        if isinstance(op, Slice):
            return assign_at(whole, op.index, part)
        if isinstance(op, Permute):
            return part.permute(*sorted(range(len(op.dims)), key=op.dims.__getitem__))
        if isinstance(op, Reshape | Axes):
            return reshape_like(part, whole)
        if isinstance(op, ExpandTo) and tuple(whole.shape) == tuple(part.shape):
            return part
        if isinstance(op, ExpandTo) or (isinstance(op, Unfold) and op.step < op.size):
            raise ShapeError(
                "update: got an expanded tensor or windows that overlap, where several elements "
                "lie in one place, expected one that can be written to. Update a clone()."
            )
        return apply(UpdateView(((op, ()),)), whole, part)


def is_certain(op: Op, before: Shape, after: Shape) -> bool:
    """Tell whether an operator's result is a view however its input lies in memory.

    A reshape is one that only splits axes.
    """
    if not isinstance(op, Reshape):
        return True
    if not (is_known(before) and is_known(after)):
        return False
    parts = iter([part for part in after if part != 1])
    for size in before:
        left = size or 1
        while left > 1:
            part = next(parts, None) or left + 1
            if left % part:
                return False
            left //= part
    return True
