"""The memory plan: which value lives when, and where in one arena it can stand.

A value lives from the node that computes it to the last node that uses it. Views have no memory of
their own and keep their source alive. An elementwise result takes over the memory of an input that
dies there. Each remaining buffer is placed, largest first, at the lowest offset where it meets no
other that lives at the same time; of very many, in the order of the run, in the smallest gap that
is wide enough, which takes no longer for each of them.

A loop has one buffer: the variables' values, and beside them an arena for one round, which every
round uses again. Both sides of a branch are planned as if both ran. Lists of what the rounds
computed, for a gradient, are as long as the run decides; they are no part of a plan.

Source: greedy by size, Pisarchyk & Lee, Efficient Memory Management for Deep Neural Net Inference,
2020.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ...errors import GraphError
from ...op import Op, Spec
from ...ops.elementwise.rows import Elementwise
from ...ops.shaping.broadcasting import ExpandTo
from ...ops.shaping.indexing import Slice
from ...ops.shaping.movement import InsertAxes, Permute, RemoveAxes, Reshape
from ..control.cond import Switch
from ..control.loop_stacks import HandleNode, History, Output
from ..control.while_op import While, loops_used
from ..core.gradients import Identity, StopGradient
from ..core.node import Node, UnknownShape
from ..core.order import schedule
from ..core.structures import flatten
from ..core.variables import StateOp
from ..executors.node_errors import complaint
from ..operators.random import Random
from ..passes.fused import Fused
from .aliasing import running_order
from .offsets import ALIGNMENT as ALIGNMENT
from .offsets import Buffer as Buffer
from .offsets import assign_offsets

VIEWS = (ExpandTo, Identity, InsertAxes, Permute, RemoveAxes, Reshape, StopGradient, Switch)


@dataclass(frozen=True)
class MemoryPlan:
    """What a run of some fetches needs, without feeds, variables and constants.

    Attributes:
        total_bytes: all buffers that a run produces, one after another.
        peak_bytes: the planned high-water mark: the size of the arena.
        buffers: where each stands and when.
        in_place: nodes whose result takes over an input's memory.
        order: the nodes in the order in which they run; `first` and `last` count in it.
        home: for each node, the node in whose memory its value is.
        loops: what is in the buffers of loops.
    """

    total_bytes: int
    peak_bytes: int
    buffers: tuple[Buffer, ...]
    in_place: tuple[Node, ...]
    order: tuple[Node, ...]
    home: dict[Node, Node]
    loops: "dict[Node, LoopPlan]" = field(default_factory=dict)


@dataclass(frozen=True)
class LoopPlan:
    """What is in the one buffer of a loop; offsets count from its start.

    Attributes:
        n_bytes: of the whole buffer.
        places: the offset and the shape of each variable's value; None for a list.
        spare: how far behind is a second set of places, for a round that hands a variable's memory
            on to another; 0 where one set is enough.
        scratch: the offset of the arena in which condition and round run.
        test, body: their plans.
        kept: the places of the lists that the loop keeps.
        sizes: the shape of every node inside.
    """

    n_bytes: int
    places: tuple[tuple[int, tuple[int, ...]] | None, ...]
    spare: int
    scratch: int
    test: MemoryPlan
    body: MemoryPlan
    kept: tuple[int, ...]
    sizes: dict[Node, tuple[int, ...]]

    @property
    def total_bytes(self) -> int:
        """All buffers of one round, and the variables' values; no less than stand there at once."""
        return max(self.n_bytes, self.scratch + self.test.total_bytes + self.body.total_bytes)


def memory_plan(
    fetches: object, fed: Collection[Node] = (), sizes: dict[Node, tuple[int, ...]] | None = None
) -> MemoryPlan:
    """Return the plan of a run of `fetches`, in the order in which a session runs it.

    What is inside a loop counts once, however often it goes round.

    Args:
        fed: nodes that the run is given; placeholders always are.
        sizes: shapes of nodes whose static shape does not say all.
    Raises:
        GraphError: a size is not known before the run; names the node.
    """
    leaves: list[Node] = []
    flatten(fetches, leaves)
    fed = set(fed)
    order = running_order(leaves, fed)
    loops: dict[Node, LoopPlan] = {}
    for node, (takers, _) in loops_used(order, fed).items():
        lists = {taker.op.place for taker in takers if isinstance(taker.op, History)}
        loops[node] = loop_plan(node, lists, sizes or {})
    planner = Planner(order, leaves, fed, sizes or {}, loops)
    planner.place_views()
    in_place = planner.reuse()
    lives = planner.lives()
    total = sum(planner.total_bytes(node) for node in order if node in planner.made)
    grain = ALIGNMENT if loops else max((node.dtype.itemsize for node in lives), default=1)
    buffers = assign_offsets(
        [Buffer(node, planner.n_bytes(node), *lives[node]) for node in lives], grain
    )
    peak = max((b.offset + b.n_bytes for b in buffers), default=0)
    return MemoryPlan(
        total, peak, tuple(buffers), tuple(in_place), tuple(order), dict(planner.home), loops
    )


def loop_plan(node: Node, lists: Collection[int], sizes: dict[Node, tuple[int, ...]]) -> LoopPlan:
    """Return the plan of the loop `node`, whose inputs have these sizes, or those that are known.

    Args:
        lists: the places of the lists that are asked for.
    Raises:
        GraphError: a size in it is not known, or a variable's changes from round to round.
    """
    loop: While = node.op
    source_of = dict(zip(loop.given, node.inputs, strict=True))
    outer = {p: _size(source, sizes) for p, source in source_of.items()}
    ends = [*loop.body, *(loop.saved[k] for k in sorted(lists))]
    inside = sizes_of(schedule([loop.test, *ends], set(source_of)), outer)
    for variable, end in zip(loop.variables, loop.body, strict=True):
        if (
            not isinstance(variable, HandleNode)
            and inside.get(end, outer[variable]) != outer[variable]
        ):
            raise end.error(
                f"memory_plan: a variable of loop {node.name!r} is {outer[variable]} at first and "
                f"{inside[end]} after a round, expected one size. A loop whose values grow cannot "
                "be planned."
            )
    test = memory_plan([loop.test], set(source_of), inside)
    body = memory_plan(ends, set(source_of), inside)
    places, used = _places(loop, outer)
    # a round's results may look into variables' memory, other than each at its own
    pairs, variables = zip(loop.variables, loop.body, strict=True), set(loop.variables)
    swaps = any(end is not v and body.home.get(end, end) in variables for v, end in pairs)
    spare = used if swaps else 0
    scratch = used + spare
    work = max(test.peak_bytes, body.peak_bytes)
    return LoopPlan(
        scratch + work, places, spare, scratch, test, body, tuple(sorted(lists)), inside
    )


def _places(
    loop: While, sizes: dict[Node, tuple[int, ...]]
) -> tuple[tuple[tuple[int, tuple[int, ...]] | None, ...], int]:
    """Return where each variable's value stands, and where the last one ends."""
    places: list[tuple[int, tuple[int, ...]] | None] = []
    end = 0
    for variable in loop.variables:
        if isinstance(variable, HandleNode):
            places.append(None)
            continue
        places.append((end, sizes[variable]))
        end += _bytes(variable, sizes)
        end += -end % ALIGNMENT
    return tuple(places), end


def _size(node: Node, sizes: dict[Node, tuple[int, ...]]) -> tuple[int, ...]:
    if node in sizes:
        return sizes[node]
    if isinstance(node.shape, UnknownShape) or None in node.shape:
        raise _unknown_size(node)
    return tuple(n for n in node.shape if n is not None)


def _bytes(node: Node, sizes: dict[Node, tuple[int, ...]]) -> int:
    return math.prod(_size(node, sizes)) * int(node.dtype.itemsize)


def _unknown_size(node: Node) -> GraphError:
    return node.error(
        f"memory_plan: the size of {node.name!r} is not known: got {node.shape}, expected numbers. "
        "Give every placeholder its sizes."
    )


def sizes_of(
    order: Sequence[Node], fed: dict[Node, tuple[int, ...]]
) -> dict[Node, tuple[int, ...]]:
    """Return the shape of every node, once the shapes of the feeds are known.

    Raises:
        GraphError: it is still not known; names the node.
    """
    shapes: dict[Node, tuple[int, ...]] = {}
    for node in order:
        if node in fed:
            shapes[node] = fed[node]
        elif not isinstance(node.shape, UnknownShape) and None not in node.shape:
            shapes[node] = tuple(node.shape)
        elif node.op is not None and all(source in shapes for source in node.inputs):
            shapes[node] = _infer(node, shapes)
        elif node.op is None and node.inputs and node.inputs[0] in shapes:
            shapes[node] = shapes[node.inputs[0]]  # a placeholder's default
        else:
            raise _unknown_size(node)
    return shapes


def _infer(node: Node, shapes: dict[Node, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of an operator's result; a loop keeps the sizes of its first values."""
    assert node.op is not None  # the caller has asked
    if isinstance(node.op, Output) and isinstance(node.inputs[0].op, While):
        kind, place = node.op.slot
        return shapes[node.inputs[0].inputs[place]] if kind == "out" else ()
    specs = [Spec(shapes[source], source.dtype) for source in node.inputs]
    refused = complaint(node, specs)
    if refused is not None:
        raise refused
    shape = node.op.infer(*specs).shape
    if None in shape:
        raise _unknown_size(node)
    return tuple(n or 0 for n in shape)


class Planner:
    """Whose memory each value is in, and until when it is needed.

    Args:
        views: operators whose result looks into the memory of the first input.
    Attributes:
        home: for each node, the node that its memory was made for.
        straight: nodes whose elements lie in memory in their own order.
        made: the nodes for whose results a run makes memory.
        last: for each home, the last step that uses it; one past the end for what is fetched.
    """

    def __init__(
        self,
        order: Sequence[Node],
        fetches: Sequence[Node],
        fed: Collection[Node],
        sizes: dict[Node, tuple[int, ...]],
        loops: dict[Node, LoopPlan],
        views: tuple[type[Op], ...] = VIEWS,
    ) -> None:
        self.views = views
        self.order, self.fetches, self.fed, self.sizes = order, fetches, fed, sizes
        self.loops = loops
        self.home: dict[Node, Node] = {}
        self.straight: set[Node] = set()
        self.last: dict[Node, int] = {}
        self.made: set[Node] = set()
        self._members: dict[Node, list[Node]] = {}  # a home, with the nodes whose home it is

    def n_bytes(self, node: Node) -> int:
        """Return the size of a node's value."""
        if node in self.loops:
            return self.loops[node].n_bytes
        return _bytes(node, self.sizes)

    def total_bytes(self, node: Node) -> int:
        """Return the size of all buffers that a node makes."""
        return self.loops[node].total_bytes if node in self.loops else self.n_bytes(node)

    def place_views(self) -> None:
        """Find the home of every node, and the last use of every home."""
        for node in self.order:
            if self._is_view(node):
                source = node.inputs[0]
                self.home[node] = self.home.get(source, source)
                if source in self.straight and not _is_taken(node) and self._keeps_order(node):
                    self.straight.add(node)
                continue
            self.home[node] = node
            self.straight.add(node)
            if node not in self.fed and _makes_memory(node):
                self.made.add(node)
        for i, node in enumerate(self.order):
            self.last[self.home[node]] = max(self.last.get(self.home[node], 0), i)
            for source in () if node in self.fed else node.inputs:
                home = self.home.get(source, source)
                self.last[home] = max(self.last.get(home, 0), i)
        for node in self.fetches:
            self.last[self.home[node]] = len(self.order)
        for node, home in self.home.items():
            self._members.setdefault(home, []).append(node)

    def _is_view(self, node: Node) -> bool:
        """Tell whether a result only looks into its input's memory.

        A transpose can be looked at in place, but not under another shape: that is a copy.
        """
        if node in self.fed or isinstance(node, HandleNode):
            return False
        if _is_taken(node):
            return node.inputs[0] in self.loops
        if not isinstance(node.op, self.views):
            return False
        return not isinstance(node.op, Reshape) or node.inputs[0] in self.straight

    def _keeps_order(self, node: Node) -> bool:
        if isinstance(node.op, Permute):
            return tuple(node.op.dims) == tuple(range(len(node.op.dims)))
        if isinstance(node.op, ExpandTo):
            return node.shape == node.inputs[0].shape and None not in node.shape
        return not isinstance(node.op, Slice) or len(node.op.index) == 1

    def reuse(self) -> list[Node]:
        """Let elementwise results take over an input that dies there; return those nodes."""
        reusing = []
        for i, node in enumerate(self.order):
            fuses = isinstance(node.op, Fused) and node.op.reduction is None
            if node not in self.made or not (fuses or isinstance(node.op, Elementwise)):
                continue
            owner = next((self.home[s] for s in node.inputs if self._dies(s, node, i)), None)
            if owner is not None:
                reusing.append(node)
                self.last[owner] = self.last.pop(node)
                for other in self._members.pop(node):
                    self.home[other] = owner
                    self._members[owner].append(other)
        return reusing

    def _dies(self, source: Node, node: Node, i: int) -> bool:
        """Tell whether `node`, at step i, may write over the memory of `source` as it reads it.

        Every input in that memory must then lie there element for element as the result will.
        """
        owner = self.home.get(source, source)
        n_bytes = self.n_bytes(node)
        if owner not in self.made or self.last[owner] != i or self.n_bytes(owner) != n_bytes:
            return False
        inside = [s for s in node.inputs if self.home.get(s, s) is owner]
        return all(s in self.straight and self.n_bytes(s) == n_bytes for s in inside)

    def lives(self) -> dict[Node, tuple[int, int]]:
        """Return the first and last step of every buffer."""
        place = {node: i for i, node in enumerate(self.order)}
        homes = dict.fromkeys(self.home[node] for node in self.order)
        return {h: (place[h], self.last[h]) for h in homes if h in self.made}


def _makes_memory(node: Node) -> bool:
    """Tell whether a result is new memory of the run: not what variables or lists hold."""
    if isinstance(node.op, While):
        return True
    if node.op is None or isinstance(node, HandleNode):
        return False
    return not isinstance(node.op, StateOp) or isinstance(node.op, Random)


def _is_taken(node: Node) -> bool:
    """Tell whether a node is the last value of a loop's variable, where the loop has it."""
    return (
        isinstance(node.op, Output)
        and isinstance(node.inputs[0].op, While)
        and (node.op.slot[0] == "out")
    )
