"""Elementwise fusion: operators that treat each element alone become one operator.

Memory is then read once and written once however many operators there are. A node joins those that
use it when all of them are in one group, it is elementwise and of the group's shape, and nobody
else wants to see it. A group is computed by a kernel from the size on at which the machine's cost
model says that a kernel pays, else by NumPy.
"""

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
from .fused import Fused, FusedReduction, Origin
from .lowering import Parts, Runs, names_of, program_of, runs_of
from .rewrite import rebuild, rewrite, simple

LONGEST = 48  # operators in a group: beyond, registers run out and compiling takes long
FAR = 24  # steps: what was computed so long ago has left the nearest caches


def fuse(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with groups of elementwise operators fused."""
    root = _groups(fetches, fed)
    size: dict[Node, int] = {}
    for end in root.values():
        size[end] = size.get(end, 0) + 1

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if root.get(node) is not node:
            return None
        group = _Group(root, node)
        group.collect(node, inputs)
        if len(group.parts) == size[node] == 1:  # alone: only for a kernel, where that is faster
            return None if node.op.name in COMMON else group.as_node(node, alone=True)
        return group.as_node(node) if group.parts else None

    return rewrite(fetches, rule, fed, at=set(root.values()))


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
        if node in fed or not (_elementwise(node) or _reduces(node)):
            continue
        ends = list(dict.fromkeys(root[u] for u in users[node] if u in root))
        joins = (
            node not in must_exist
            and _in_one_group(node, users[node], ends, root)
            and sizes[ends[0]] < LONGEST
            and (place[ends[0]] - place[node] <= FAR or not _would_wait(node, users))
        )
        root[node] = ends[0] if joins else node
        sizes[root[node]] = sizes.get(root[node], 0) + 1
    return root


def _in_one_group(
    node: Node, users: Sequence[Node], ends: Sequence[Node], root: Mapping[Node, Node]
) -> bool:
    """Tell whether all that use an elementwise `node` are in one group, of its device and shape."""
    if _reduces(node) or len(ends) != 1 or any(user not in root for user in users):
        return False
    inside = ends[0].inputs[0] if _reduces(ends[0]) else ends[0]
    return bool(node.device == ends[0].device and node.shape == inside.shape)


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
        is_fusible = isinstance(node.op, Elementwise | Power)
    return is_fusible and simple(node)


def _reduces(node: Node) -> bool:
    """Tell whether a node is a reduction that a kernel can do on its way."""
    if not isinstance(node.op, Sum | Mean | Extreme) or not simple(node):
        return False
    x, dims = node.inputs[0], node.op.dims
    if isinstance(x.shape, UnknownShape) or x.dtype.kind != "f":
        return False
    rank = len(x.shape)
    return bool(dims) and sorted(dims) == list(range(rank - len(dims), rank))


class _Group:
    """The operators of one group as they are collected, inputs first."""

    def __init__(self, root: dict[Node, Node], end: Node) -> None:
        self.root, self.end = root, end
        self.parts: list[tuple[Op, tuple[int, ...]]] = []
        self.origins: list[Origin] = []
        self.leaves: dict[Node, int] = {}  # the inputs of the whole, numbered
        self.results: dict[Node, int] = {}  # the operators' numbers as operands

    def collect(self, node: Node, inputs: Sequence[Node]) -> int:
        """Add `node` and what belongs to its group; return its number as an operand."""
        operands = tuple(map(self._operand, node.inputs, inputs))
        if isinstance(node.op, Reduction):
            return 0
        assert node.op is not None  # a node of a group is an operator
        self.parts.append((node.op, operands))
        self.origins.append((node.name, node.built_at))
        self.results[node] = -len(self.parts)
        return self.results[node]

    def _operand(self, old: Node, new: Node) -> int:
        if self.root.get(old) is self.end:
            return self.results[old] if old in self.results else self.collect(old, new.inputs)
        return self.leaves.setdefault(new, len(self.leaves))

    def as_node(self, node: Node, alone: bool = False) -> Node | None:
        """Return the node of the whole group; `alone`: None when no kernel computes it."""
        dtypes = [leaf.dtype for leaf in self.leaves]
        inside = node.inputs[0] if isinstance(node.op, Reduction) else node
        unknown = isinstance(inside.shape, UnknownShape)
        count = None if unknown else numel(tuple(inside.shape))
        folded = len(node.op.dims) if isinstance(node.op, Reduction) else 0
        runs = None if unknown else self._runs(tuple(inside.shape), folded)
        least = self._from_size(dtypes, count, runs)
        if alone and least is None:
            return None
        if isinstance(node.op, Reduction):
            fold = FusedReduction(self.parts, dtypes, node.op, least, origins=self.origins)
            return rebuild(fold, *self.leaves)
        op = Fused(self.parts, dtypes, least, origins=self.origins)
        return rebuild(op, *self.leaves)

    def _runs(self, whole: tuple[int | None, ...], folded: int) -> Runs | None:
        """Return the runs of the group, where the shapes of all its inputs are known."""
        if any(isinstance(leaf.shape, UnknownShape) for leaf in self.leaves):
            return None
        return runs_of(self.parts, [tuple(leaf.shape) for leaf in self.leaves], whole, folded)

    def _from_size(
        self, dtypes: Sequence[DType], count: int | None, runs: Runs | None
    ) -> int | None:
        """Return the number of elements from which a kernel computes; None where none does."""
        if count is not None and count < machine().smallest:
            return None
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
