"""Elementwise fusion: operators that treat each element alone become one operator.

Memory is then read once and written once however many operators there are. A node joins those that
use it when all of them are in one group, it is elementwise and of the group's shape, and nobody
else wants to see it. A group is computed by a kernel from the size on at which the machine's cost
model says that a kernel pays, else by NumPy.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ...arrays.library import DType
from ...arrays.shapes import numel
from ...compile import engine
from ...op import Op
from ...ops.elementwise.casting import Cast
from ...ops.elementwise.pointwise import Power
from ...ops.elementwise.rows import Elementwise
from ...ops.reducing.reduction import Extreme, Mean, Reduction, Sum
from ..core.node import Node, UnknownShape
from ..core.order import schedule
from ..costs.machine import COMMON, machine
from .fused import Fused, Origin
from .lowering import Parts, Runs, names_of, program_of, runs_of
from .rewrite import rebuild, rewrite, simple

EACH_ALONE = (Elementwise, Power)
REDUCTIONS = (Sum, Mean, Extreme)  # that a kernel can do on its way
LONGEST = 48  # operators in a group: beyond, registers run out and compiling takes long
FAR = 24  # steps: what was computed so long ago has left the nearest caches


def fuse(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with groups of elementwise operators fused."""
    root = _groups(fetches, fed)
    size = Counter(root.values())
    new: dict[Node, Node] = {}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if node not in size:
            return None
        group = _Group(root, node, new)
        group.collect(node)
        if len(group.parts) == size[node] == 1:  # alone: only for a kernel, where that is faster
            return None if node.op.name in COMMON else group.as_node(node, alone=True)
        return group.as_node(node) if group.parts else None

    return rewrite(fetches, rule, fed, at=size.keys(), within=root.keys() - size.keys(), new=new)


def _groups(fetches: Sequence[Node], fed: Collection[Node]) -> dict[Node, Node]:
    """Return for each fusible node the last node of its group, which may be itself."""
    order = schedule(fetches, fed)
    users: dict[Node, list[Node]] = {node: [] for node in order}
    must_exist = set(fetches)
    for node in order:
        for source in node.inputs:
            users.setdefault(source, []).append(node)
        must_exist.update(node.control_inputs)
    root: dict[Node, Node] = {}
    sizes: dict[Node, int] = {}
    place = {node: i for i, node in enumerate(order)}
    for node in reversed(order):
        end: Node | None = None
        if node in fed:
            continue
        if _elementwise(node):
            end = None if node in must_exist else _end_of_users(node, users[node], root)
        elif not _reduces(node):
            continue
        is_far = end is not None and place[end] - place[node] > FAR
        if end is None or sizes[end] >= LONGEST or (is_far and _would_wait(node, users)):
            end = node
        root[node] = end
        sizes[end] = sizes.get(end, 0) + 1
    return root


def _end_of_users(node: Node, users: Sequence[Node], root: Mapping[Node, Node]) -> Node | None:
    """Return the end of the group that all who use `node` are in, if of its device and shape."""
    ends = set(map(root.get, users))
    end = ends.pop() if len(ends) == 1 else None
    if end is None or node.device != end.device:
        return None
    inside = end.inputs[0] if isinstance(end.op, REDUCTIONS) else end
    return end if node.shape == inside.shape else None


def _would_wait(node: Node, users: Mapping[Node, Sequence[Node]]) -> bool:
    """Tell whether two inputs would wait in the place of one result if `node` were put off.

    That takes memory. Gradients that are summed over time are the example.
    """
    waiting = [
        source
        for source in dict.fromkeys(node.inputs)
        if source.op is not None and len(users[source]) == 1 and source.shape == node.shape
    ]
    return len(waiting) > 1


def _elementwise(node: Node) -> bool:
    if isinstance(node.op, Cast):
        is_fusible = node.inputs[0].dtype.kind == "b" and node.dtype.kind == "f"
    else:
        is_fusible = isinstance(node.op, EACH_ALONE)
    return is_fusible and simple(node)


def _reduces(node: Node) -> bool:
    """Tell whether a node is a reduction that a kernel can do on its way."""
    if not isinstance(node.op, REDUCTIONS) or not simple(node):
        return False
    x, dims = node.inputs[0], node.op.dims
    if isinstance(x.shape, UnknownShape) or x.dtype.kind != "f":
        return False
    rank = len(x.shape)
    return bool(dims) and sorted(dims) == list(range(rank - len(dims), rank))


class _Group:
    """The operators of one group as they are collected, inputs first."""

    def __init__(self, root: Mapping[Node, Node], end: Node, new: Mapping[Node, Node]) -> None:
        self.root, self.end, self.new = root, end, new
        self.parts: list[tuple[Op, tuple[int, ...]]] = []
        self.origins: list[Origin] = []
        self.leaves: dict[Node, int] = {}  # the inputs of the whole, numbered
        self.results: dict[Node, int] = {}  # the operators' numbers as operands

    def collect(self, node: Node) -> int:
        """Add `node` and what belongs to its group; return its number as an operand."""
        operands = tuple(map(self._operand, node.inputs))
        if isinstance(node.op, Reduction):
            return 0
        assert node.op is not None  # a node of a group is an operator
        self.parts.append((node.op, operands))
        self.origins.append((node.name, node.built_at))
        self.results[node] = -len(self.parts)
        return self.results[node]

    def _operand(self, node: Node) -> int:
        if self.root.get(node) is self.end:
            return self.results[node] if node in self.results else self.collect(node)
        return self.leaves.setdefault(self.new.get(node, node), len(self.leaves))

    def as_node(self, node: Node, alone: bool = False) -> Node | None:
        """Return the node of the whole group; `alone`: None when no kernel computes it."""
        dtypes = [leaf.dtype for leaf in self.leaves]
        least = self._from_size(node, dtypes)
        if alone and least is None:
            return None
        reduction = node.op if isinstance(node.op, Reduction) else None
        op = Fused(self.parts, dtypes, least, reduction, origins=self.origins)
        return rebuild(op, *self.leaves)

    def _from_size(self, node: Node, dtypes: Sequence[DType]) -> int | None:
        """Return the number of elements from which a kernel computes; None where none does."""
        reduces = isinstance(node.op, Reduction)
        shape = node.inputs[0].shape if reduces else node.shape
        if isinstance(shape, UnknownShape):
            return from_size(self.parts, dtypes)
        count = numel(tuple(shape))
        if count is not None and count < machine().smallest:
            return None
        runs = None
        if not any(isinstance(leaf.shape, UnknownShape) for leaf in self.leaves):
            shapes = [tuple(leaf.shape) for leaf in self.leaves]
            runs = runs_of(self.parts, shapes, tuple(shape), len(node.op.dims) if reduces else 0)
        least = from_size(self.parts, dtypes, runs)
        if least is None or count is None:
            return least
        return 0 if count >= least else None


def from_size(parts: Parts, dtypes: Sequence[DType], runs: Runs | None = None) -> int | None:
    """Return the number of elements from which a kernel pays; None where it never does."""
    if program_of(parts, dtypes) is None or not engine.available():
        return None
    rows, here = names_of(parts), machine()
    gain = (here.numpy_s(rows, 10**6) - here.fused_s(rows, 10**6)) / 1e6
    if not gain > 0:
        return None
    gain += runs.numpy_s() - runs.kernel_s(parts) if runs else 0.0
    if not gain > 0:
        return None
    at_once = here.spread_s + here.kernel_call_s - here.numpy_s(rows, 0)
    return max(int(at_once / gain) + 1, 1)
