"""Lowering: every loop of a graph taken apart into Switch, Merge, Enter, Exit, NextIteration.

For a loop variable v, with t the condition built over all the Merges,

    v0 -> Enter -> Merge -> Switch(LoopCond(t)) -> body -> NextIteration -> back to Merge
                              `-> Exit -> what uses the loop's result

and what the loop captured, constants too, is entered once for all iterations. A list of what a
node was in each round is a variable more, to which `Push` adds. What has effects, or sees those of
others, keeps the order in which the sequential run does it, by edges that carry no value and no
death; in a loop one more variable, the turn, hands that order from one iteration to the next.

Source: Yu et al., Dynamic Control Flow in Large-Scale Machine Learning, EuroSys 2018, section 4.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...control.liveness import maybe_dead
from ...control.loop_stacks import Empty, Output
from ...control.while_op import While
from ...core.copying import make_node
from ...core.node import Node
from ...core.order import is_ordered, schedule, sources, writes_of
from ...core.variables import NoOp, Read, Variable
from .loop_nodes import Enter, LoopNodes, NextIteration

UNKNOWN_EFFECT = "unknown effect"  # what says nothing of itself keeps order with its like


class Touched(NamedTuple):
    """The variables (and other memory) that a node looks at, and those that it changes."""

    reads: frozenset[Hashable]
    writes: frozenset[Hashable]

    def __bool__(self) -> bool:
        return bool(self.reads or self.writes)


NOTHING = Touched(frozenset(), frozenset())


def list_touched(node: Node) -> Touched:
    """Return what `node` touches; a loop touches what its body does."""
    op = node.op
    if isinstance(node, Variable) or isinstance(op, Read):
        variable = node if isinstance(node, Variable) else op.variable
        return Touched(frozenset([variable]), frozenset())
    if not is_ordered(node):
        return NOTHING
    if isinstance(op, While):
        inside = [list_touched(inner) for inner in op.nodes()]
        reads = frozenset().union(*(t.reads for t in inside))
        return Touched(reads, frozenset().union(*(t.writes for t in inside)))
    return Touched(frozenset(), frozenset(writes_of(node) or [_memory_of(op)]))


def _memory_of(op: object) -> Hashable:
    """Return the random generator of an operator that draws, which is kept by the operator."""
    return op if hasattr(op, "seed") else UNKNOWN_EFFECT


class Effects:
    """The nodes met so far, in the order of a sequential run, by what they touch."""

    def __init__(self) -> None:
        self._written: dict[Hashable, Node] = {}
        self._read: dict[Hashable, list[Node]] = {}

    def add(self, what: Touched, last: Node) -> list[Node]:
        """Return which nodes must have run before one that touches this; `last` is its end."""
        before = [self._written[m] for m in what.reads | what.writes if m in self._written]
        for memory in what.writes:
            before += self._read.pop(memory, [])
            self._written[memory] = last
        for memory in what.reads - what.writes:
            self._read.setdefault(memory, []).append(last)
        return before


@dataclass(frozen=True)
class Lowered:
    """A graph without loops as nodes; it has cycles instead, through NextIteration.

    Attributes:
        fetches: what stands for the nodes that were asked for.
        nodes: everything that runs.
        after: for a node the nodes that must have run before it, dead or alive.
    """

    fetches: tuple[Node, ...]
    nodes: tuple[Node, ...]
    after: dict[Node, tuple[Node, ...]]

    def untie(self) -> None:
        """Cut the circles of nodes, once they have been read: cycles would keep the nodes alive."""
        for node in self.nodes:
            if any(isinstance(source.op, NextIteration) for source in node.inputs):
                node.inputs = node.inputs[:1]


def lower(fetches: Sequence[Node], fed: Collection[Node] = ()) -> Lowered:
    """Return the graph below `fetches` with every loop taken apart; nothing above a fed node."""
    work = Lowering(set(fed))
    ends = work.lower_nodes(fetches, Level({node: node for node in fed}))
    after = {node: tuple(dict.fromkeys(before)) for node, before in work.after.items()}
    return Lowered(tuple(ends), _below([*ends, *work.ends], after, work.fed), after)


def _below(
    nodes: Iterable[Node], after: dict[Node, tuple[Node, ...]], fed: Collection[Node]
) -> tuple[Node, ...]:
    below: dict[Node, None] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in below:
            below[node] = None
            waiting += sources(node, fed)
            waiting += after.get(node, ())
            waiting += () if node in fed or node.op is None else node.control_inputs
    return tuple(sorted(below, key=lambda node: node.id))


@dataclass
class Level:
    """Where nodes are being lowered: outside all loops, or in the condition or body of one.

    Attributes:
        new: what stands for a node here.
        nodes_of_loop: those of the loop; None outside.
        outside: the level that the loop is in.
        pivot: fires once in every iteration, for nodes that otherwise wait for nothing.
        turn: what the effects of an iteration wait for.
        effects: the nodes after which these effects have happened.
        entered: constants that have been brought in.
    """

    new: dict[Node, Node]
    nodes_of_loop: LoopNodes | None = None
    outside: "Level | None" = None
    pivot: Node | None = None
    turn: Node | None = None
    effects: list[Node] = field(default_factory=list)
    entered: dict[Node, Node] = field(default_factory=dict)


class Lowering:
    """One lowering in progress.

    Attributes:
        after: see `Lowered`.
        ends: nodes on which no fetch depends, but the rounds of some loop do.
    """

    def __init__(self, fed: set[Node]) -> None:
        self.fed = fed
        self.after: dict[Node, list[Node]] = {}
        self.ends: list[Node] = []

    def lower_nodes(self, nodes: Sequence[Node], level: Level) -> list[Node]:
        """Return what stands for `nodes`, once all that they need has been built in `level`."""
        ready = set(level.new)
        order = schedule(nodes, ready)
        risky, before = maybe_dead(order, ready), Effects()
        for node in order:
            if node in ready or _is_taken(node):
                continue
            if isinstance(node.op, While):
                taken = [
                    n for n in order if n not in ready and _is_taken(n) and n.inputs[0] is node
                ]
                first, last = self._loop(node, level, risky, taken)
                level.new[node] = last  # for what only waits for the loop
            else:
                first = last = level.new[node] = self._same(node, level)
            touches = list_touched(node)
            if touches:
                turn = [] if level.turn is None else [level.turn]
                self.after.setdefault(first, []).extend([*before.add(touches, last), *turn])
                level.effects.append(last)
        return [*self._here(nodes, level)]

    def _same(self, node: Node, level: Level) -> Node:
        """Return the same operator over what stands for its inputs."""
        if node.op is None:
            return self._leaf(node, level)
        reads = isinstance(node.op, Read)
        inputs = node.inputs if reads else self._here(node.inputs, level)
        control = self._here(node.control_inputs, level)
        waits = () if reads else inputs
        if level.pivot is not None and all(isinstance(n.op, Enter) for n in (*waits, *control)):
            control = (*control, level.pivot)
        return node.with_inputs(inputs, control)

    def _leaf(self, node: Node, level: Level) -> Node:
        """Return what stands for a node without an operator."""
        if level.nodes_of_loop is None or level.outside is None or level.pivot is None:
            return node
        if isinstance(node, Variable):  # the loop writes it, so each iteration reads it anew
            return make_node(Read(node), (node,), node, (level.pivot,), f"{node.name}/read")
        if node not in level.entered:
            (there,) = self._here((node,), level.outside)
            level.entered[node] = level.nodes_of_loop.enter(there, constant=True)
        return level.entered[node]

    def _here(self, nodes: Sequence[Node], level: Level) -> tuple[Node, ...]:
        """Return what stands for `nodes`; a constant may be met here for the first time."""
        for node in nodes:
            if node not in level.new:
                level.new[node] = self._leaf(node, level)
        return tuple(level.new[node] for node in nodes)

    def _loop(
        self, node: Node, level: Level, risky: set[Node], taken: Sequence[Node]
    ) -> tuple[Node, Node]:
        """Take a loop apart; return the nodes before and after which its effects happen."""
        loop: While = node.op
        count, inputs = len(loop.variables), self._here(node.inputs, level)
        before = [*node.control_inputs, *(n for n in node.inputs if n in risky)]
        turn = () if level.pivot is None else (level.pivot,)  # dead after the last iteration
        nodes_of_loop = LoopNodes(node, level.pivot, (*self._here(before, level), *turn))
        places = sorted({n.op.slot[1] for n in taken if n.op.slot[0] == "past"})
        for source in (*inputs[:count], *(nodes_of_loop.source(Empty(), "Empty") for _ in places)):
            nodes_of_loop.open(source)
        if loop.ordered:
            nodes_of_loop.open(nodes_of_loop.source(NoOp(), "turn"))
        outer = zip(
            loop.entrances,
            (nodes_of_loop.enter(s, constant=True) for s in inputs[count:]),
            strict=True,
        )
        inside = Level(dict(outer), nodes_of_loop, level)
        (test,) = self.lower_nodes([loop.test], _part(inside, loop, nodes_of_loop.merges))
        nodes_of_loop.decide(test)
        body = _part(inside, loop, nodes_of_loop.going)
        ends = self.lower_nodes([*loop.body, *(loop.saved[k] for k in places)], body)
        nodes_of_loop.close(ends[:count], ends[count:])
        if loop.ordered:
            self.after[nodes_of_loop.pass_turn()] = body.effects
        self.ends += nodes_of_loop.exits
        for user in taken:
            kind, place = user.op.slot
            level.new[user] = nodes_of_loop.exits[
                place if kind == "out" else count + places.index(place)
            ]
        return nodes_of_loop.enters[-1], nodes_of_loop.exits[-1]


def _part(inside: Level, loop: While, values: Sequence[Node]) -> Level:
    """Return the level of the condition or the body, with `values` for the loop's variables."""
    new = {**inside.new, **dict(zip(loop.variables, values, strict=False))}
    turn = values[-1] if loop.ordered else None
    return Level(new, inside.nodes_of_loop, inside.outside, values[0], turn, [], inside.entered)


def _is_taken(node: Node) -> bool:
    """Tell whether `node` is a value taken out of a loop's outcome."""
    return isinstance(node.op, Output) and isinstance(node.inputs[0].op, While)
